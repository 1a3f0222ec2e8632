// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"testing"
)

// TestCurrent: the generated files in the tree equal the files that the table gives.
func TestCurrent(t *testing.T) {
	for name, f := range files {
		want, err := renderFile(f.table, f.rows())
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile("../" + name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what the table says: go generate ./proxyd/softgpu/ptx", name)
		}
	}
}
