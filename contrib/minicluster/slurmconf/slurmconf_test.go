// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmconf

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestFiles compares all files of a cluster with testdata; look at the difference before you commit
// files that -update wrote.
func TestFiles(t *testing.T) {
	cases := []struct {
		golden string
		c      Cluster
	}{
		{"two-nodes-two-gpus", Cluster{Name: "mini", Slurm: "26.05", Nodes: 2, GPUs: 2}},
		{"one-node-one-gpu-2205", Cluster{Name: "old", Slurm: "22.05", Nodes: 1, GPUs: 1}},
		{"eight-nodes", Cluster{Name: "mini", Slurm: "24.11", Nodes: 8}},
	}
	for _, c := range cases {
		t.Run(c.golden, func(t *testing.T) {
			files, err := c.c.Files()
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			for _, f := range files {
				fmt.Fprintf(&got, "=== %s %o %s\n%s", f.Path, f.Mode, f.Owner, f.Data)
			}
			path := filepath.Join("testdata", c.golden+".txt")
			if *update {
				if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("got\n%s\nwant\n%s", got.Bytes(), want)
			}
		})
	}
}
