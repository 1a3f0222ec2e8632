// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/api"
)

// TestUpToDate: the generated files in the tree are the files that the generator makes of the table.
func TestUpToDate(t *testing.T) {
	table, err := api.Load()
	if err != nil {
		t.Fatal(err)
	}
	want, err := generatedFiles(table)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range want {
		got, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Error(err)
			continue
		}
		if !bytes.Equal(got, data) {
			t.Errorf("%s is stale: go generate ./libsingshim/...", name)
		}
	}
}
