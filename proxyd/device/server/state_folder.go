// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/durable"
)

// Folder is a Sink and a Source: a folder of files, which must be there. A file appears when complete, in the place of
// an older file of the same name. There is no sync: a caller that wants the files to outlive the machine must sync.
type Folder string

// Create implements Sink.
func (d Folder) Create(name string) (io.WriteCloser, error) {
	path, err := d.pathOf(name)
	if err != nil {
		return nil, err
	}
	f, err := durable.Create(path)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Open implements Source.
func (d Folder) Open(name string) (io.ReadCloser, error) {
	path, err := d.pathOf(name)
	if err != nil {
		return nil, err
	}
	return os.Open(path)
}

// pathOf checks the name, which may be read from a file, and returns its path.
func (d Folder) pathOf(name string) (string, error) {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return "", fmt.Errorf("%q is no file of a save: %w", name, os.ErrInvalid)
	}
	return filepath.Join(string(d), name), nil
}
