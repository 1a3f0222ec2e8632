// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
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
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return &folderFile{File: f, path: path}, nil
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

// folderFile is a file that is being written.
type folderFile struct {
	*os.File
	path string
	bad  bool
}

func (f *folderFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	f.bad = f.bad || err != nil
	return n, err
}

// CloseWithError closes a file that is not complete.
func (f *folderFile) CloseWithError(error) error {
	f.bad = true
	return f.Close()
}

// Close gives the file its name, if all bytes were written.
func (f *folderFile) Close() error {
	err := f.File.Close()
	if err == nil && f.bad {
		err = errors.New("it was not written to its end")
	}
	if err == nil {
		err = os.Rename(f.path+".new", f.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.path+".new"))
	}
	return nil
}
