// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package inventory

import (
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write testdata anew")

// checkGolden compares with testdata.
func checkGolden(t *testing.T, got []byte) {
	t.Helper()
	const path = "testdata/node.json"
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || string(got) != string(want) {
		t.Errorf("%s: %v; -update writes it:\n%s", path, err, got)
	}
}
