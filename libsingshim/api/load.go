// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"embed"
	"fmt"
	"sync"
)

//go:embed *.tbl
var tables embed.FS

// order is the order of the files: types before the files that use them, and otherwise an order in which they can be
// read.
var order = []string{
	"types", "structs", "results", "enums",
	"device", "context", "memory", "vmm", "copy", "stream", "module", "launch", "graph", "texture", "interop",
	"nccl", "nvml", "files",
}

// Load returns the table, parsed and checked: the same table each time, which callers do not
// change.
var Load = sync.OnceValues(func() (*Table, error) {
	var files []File
	for _, name := range order {
		text, err := tables.ReadFile(name + ".tbl")
		if err != nil {
			return nil, fmt.Errorf("api: %w", err)
		}
		files = append(files, File{name + ".tbl", string(text)})
	}
	t, err := Parse(files...)
	if err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	if err := t.Check(); err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	return t, nil
})
