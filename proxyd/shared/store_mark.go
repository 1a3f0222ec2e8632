// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package shared

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Errors of OpenStore and Check about the store.
var (
	ErrNoStore    = errors.New("it is not there, or has no mark of this cluster")
	ErrOtherStore = errors.New("it is another store")
)

// storeMark is the name of a store's mark in the shared folder.
const storeMark = "store.json"

// StorePath returns the folder of the store.
func (f *Folder) StorePath() string { return filepath.Join(f.path, "store") }

// OpenStore finds the store by its mark, which Check then looks for, too. A shared folder that never had a store gets one, and
// a store from before there were marks gets a mark. If a store that was there is missing, OpenStore makes no other: the
// error wraps ErrNoStore or ErrOtherStore. OpenStore is called once, before the folder is used by concurrent callers.
func (f *Folder) OpenStore() error {
	known, err := readMarkFile(filepath.Join(f.path, storeMark))
	if errors.Is(err, fs.ErrNotExist) {
		known, err = f.markStore()
	}
	if err != nil {
		return fmt.Errorf("store %s: %w", f.StorePath(), err)
	}
	if err := checkStore(f.StorePath(), known.ID); err != nil {
		return err
	}
	f.storeID = known.ID
	return nil
}

// markStore makes the store's folder and its mark if they are missing, and then has the shared folder name the mark.
// Each file is made by a single node; the other nodes take the file that is there.
func (f *Folder) markStore() (Mark, error) {
	if err := os.Mkdir(f.StorePath(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return Mark{}, err
	}
	mark, err := writeMarkOnce(f.StorePath(), markName, newMark(f.mark.Cluster))
	if err != nil {
		return Mark{}, err
	}
	return writeMarkOnce(f.path, storeMark, mark)
}

// writeMarkOnce writes a mark, and returns the mark that is there: another node may have been quicker.
func writeMarkOnce(dir, name string, mark Mark) (Mark, error) {
	text, err := json.Marshal(mark)
	if err != nil {
		return Mark{}, err
	}
	err = writeOnce(dir, name, append(text, '\n'), 0o644)
	if errors.Is(err, fs.ErrExist) {
		return readMarkFile(filepath.Join(dir, name))
	}
	return mark, err
}

// checkStore tells whether the store at path has the ID.
func checkStore(path, id string) error {
	mark, err := readMarkFile(filepath.Join(path, markName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("store %s: %w: no mark %.8s. Is its file system mounted? If it is gone for good, and its checkpoints with it: rm %s",
			path, ErrNoStore, id, filepath.Join(filepath.Dir(path), storeMark))
	case err != nil:
		return fmt.Errorf("store %s: %w", path, err)
	case mark.ID != id:
		return fmt.Errorf("store %s: %w: it was %.8s, and is %.8s of cluster %q now. Is the right file system mounted? If the change is meant: rm %s",
			path, ErrOtherStore, id, mark.ID, mark.Cluster, filepath.Join(filepath.Dir(path), storeMark))
	}
	return nil
}
