// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package racks

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestLoad(t *testing.T) {
	want := map[string]string{"n1": "s1", "n2": "s1", "n3": "s2", "n4": "s2"}
	for name, tt := range map[string]struct{ text, file string }{
		"switches": {file: "topology.conf", text: `
# two racks below a core switch
SwitchName=s1 Nodes=n[1-2] LinkSpeed=100
switchname=s2 \
  nodes=n3,n4 # the second
SwitchName=core Switches=s[1-2]
`},
		"blocks": {file: "topology.conf", text: "BlockName=s1 Nodes=n[1-2]\nBlockName=s2 Nodes=n[2-4]\nBlockSizes=2\n"},
		"a tree in YAML": {file: "topology.yaml", text: `
- topology: flat
  flat: true
- topology: tree
  cluster_default: true
  tree:
    switches:
      - switch: core
        children: s[1-2]
      - switch: s1
        nodes: n[1-2]
      - switch: s2
        nodes: n[3-4]
`},
		"blocks in YAML": {file: "topology.yaml", text: `
- topology: only
  block:
    block_sizes: [2]
    blocks:
      - {block: s1, nodes: "n[1-2]"}
      - {block: s2, nodes: "n[3-4]"}
`},
	} {
		file := filepath.Join(t.TempDir(), tt.file)
		if err := os.WriteFile(file, []byte(tt.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := Load(file); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: racks %v, error %v; want %v", name, got, err, want)
		}
	}
}

func TestLoadWrong(t *testing.T) {
	for name, tt := range map[string]struct{ file, text, want string }{
		"a host list without end": {"topology.conf", "SwitchName=s1 Nodes=n[1-2\n", "s1"},
		"no YAML":                 {"topology.yaml", "a: [", "yaml"},
	} {
		file := filepath.Join(t.TempDir(), tt.file)
		if err := os.WriteFile(file, []byte(tt.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := Load(file); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: racks %v, error %v; want one with %q and the file", name, got, err, tt.want)
		}
	}
	for _, file := range []string{"", filepath.Join(t.TempDir(), "topology.conf")} {
		if got, err := Load(file); len(got) > 0 || err != nil {
			t.Errorf("without a file: racks %v, error %v", got, err)
		}
	}
}
