// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"mini": true, "a": true, "rest-2205": true,
		"": false, "..": false, "a/b": false, "Mini": false, "1st": false, "-x": false, "a b": false,
		"a234567890123456789012345678901": true, "a2345678901234567890123456789012": false,
	} {
		if _, err := At(name); (err == nil) != ok {
			t.Errorf("At(%q): %v", name, err)
		}
	}
}

func TestOneOwner(t *testing.T) {
	p, err := placeAt(t.TempDir(), "mini")
	if err != nil {
		t.Fatal(err)
	}
	if p.Running() || p.Left() {
		t.Error("Running or Left is true before the cluster was made")
	}
	lock, err := p.Take()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Clean(); err != nil {
		t.Fatal(err)
	}
	if !p.Running() || !p.Left() {
		t.Error("the owner is not seen")
	}
	if _, err := p.Take(); !errors.Is(err, ErrRunning) {
		t.Errorf("Take of a cluster that is taken: %v; want ErrRunning", err)
	}
	if got := clusterNames(p.base); len(got) != 1 || got[0] != "mini" {
		t.Errorf("clusters that run = %q, want mini", got)
	}
	lock.Close() // as when the owner is killed
	if p.Running() || !p.Left() {
		t.Error("after the end of its owner, the cluster counts as running, or has no files")
	}
	lock, err = p.Take()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := os.WriteFile(filepath.Join(p.Shared(), "old"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.Clean(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(p.Shared(), "old")); err == nil {
		t.Error("Clean left a predecessor's file")
	}
	if err := p.Remove(); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(p.base, "*")); len(left) > 0 {
		t.Errorf("files left after Remove: %q", left)
	}
}
