// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package durable replaces files so that a reader, and a successor after a crash, finds either the
// old or the new contents, and never a part of them. No other user than the caller's may be able to write
// to the folder of a file: files are opened by their paths.
package durable

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Replace replaces a file, with mode 0600. fill writes the contents. When Replace returns nil
// the new contents outlive a power cut. Concurrent calls are allowed: the last call counts.
func Replace(path string, fill func(*os.File) error) error {
	w, err := Create(path)
	if err != nil {
		return err
	}
	if err := fill(w.file); err != nil {
		return w.CloseWithError(err)
	}
	if err := w.file.Sync(); err != nil {
		return w.CloseWithError(err)
	}
	if err := w.Close(); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(path))
}

// Writer writes a file that takes the place of an older file when complete. A Writer is for a single goroutine.
type Writer struct {
	file   *os.File
	path   string
	failed bool
}

// Create begins a file, with mode 0600, that Close puts at path, without waiting for the disk. Several Writers may have
// the same path: the last Close counts.
func Create(path string) (*Writer, error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return nil, err
	}
	return &Writer{file: f, path: path}, nil
}

// Write implements io.Writer. After an error, the file is not put into its place.
func (w *Writer) Write(b []byte) (int, error) {
	n, err := w.file.Write(b)
	w.failed = w.failed || err != nil
	return n, err
}

// Close puts the file into its place. If some bytes could not be written, Close returns an error and removes the file.
// Close is called once; CloseWithError is the other way to end.
func (w *Writer) Close() error {
	err := w.file.Close()
	if err == nil && w.failed {
		err = errors.New("it was not written to its end")
	}
	if err == nil {
		err = os.Rename(w.file.Name(), w.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(w.file.Name()))
	}
	return nil
}

// CloseWithError removes the file, for the reason that the caller has. CloseWithError returns the reason, with errors of
// removing the file if there are any.
func (w *Writer) CloseWithError(reason error) error {
	return errors.Join(reason, w.file.Close(), os.Remove(w.file.Name()))
}

// ReplaceUnsynced replaces a file, with mode 0600, without waiting for the disk: for contents that
// are not used after a reboot. Concurrent calls are allowed: the last call counts.
func ReplaceUnsynced(path string, content []byte) error {
	w, err := Create(path)
	if err != nil {
		return err
	}
	if _, err := w.Write(content); err != nil {
		return w.CloseWithError(err)
	}
	return w.Close()
}

// ReplaceJSON is ReplaceUnsynced with a value as JSON.
func ReplaceJSON(path string, value any) error {
	b, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return ReplaceUnsynced(path, b)
}

// ReadJSON reads a file of ReplaceJSON into a value. The error for a file that does not exist wraps os.ErrNotExist.
func ReadJSON(path string, into any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return nil
}

// SyncFolder makes the names in a folder durable.
func SyncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
