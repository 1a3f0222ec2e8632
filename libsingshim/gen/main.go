// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Gen makes files out of the table of calls, libsingshim/api: the shim's C, the device server's dispatch, the
// replay rules, docs/coverage.md, and the tests that go round all of them. The output depends on the table
// alone and is kept in the tree; a test fails when the output is stale.
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/api"
)

//go:generate go run . -root ../..

func main() {
	root := flag.String("root", ".", "the tree to write into")
	flag.Parse()
	if err := writeFiles(*root); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func writeFiles(root string) error {
	table, err := api.Load()
	if err != nil {
		return err
	}
	made, err := generatedFiles(table)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(made)) {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, made[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}
