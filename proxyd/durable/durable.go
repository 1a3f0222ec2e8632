// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package durable replaces files so that a reader, and a successor after a crash, finds either the
// old or the new contents, and never a part of them. The folders that it writes to must be writable
// by root alone: a file is opened by its path.
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
func Replace(path string, fill func(*os.File) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	err = fill(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(path))
}

// ReplaceUnsynced replaces a file, with mode 0600, without waiting for the disk: for contents that
// are not used after a reboot. There must not be two writers at a time.
func ReplaceUnsynced(path string, content []byte) error {
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
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
