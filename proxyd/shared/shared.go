// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package shared is the folder that all nodes of a cluster share, and its identity.
//
// A shared folder that is not mounted looks like an empty folder: a daemon that made the missing
// files would run every requeued job from its beginning, over the job's own output. So the folder
// is marked once, by an administrator (`proxyd init`), and a daemon makes no file in a folder
// without the mark:
//
//	SHARED/cluster.json         the mark: a random ID, the cluster's name, when the folder was marked
//	LIB/shared-id               the ID that this node worked with before
//	SHARED/store/cluster.json   the mark of the store, which may be a file system of its own; made with the store
//	SHARED/store.json           the same: which store belongs to this folder
//
// A node that worked with one folder refuses another: the wrong file system may be mounted,
// or an administrator may have marked the empty folder below the mount point. The same holds
// for the store.
package shared

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/durable"
)

// Errors of Open and Check. ErrUnmarked, and ErrOther of Open, come with the remedy in their text.
var (
	ErrUnmarked = errors.New("it has no mark of a cluster")
	ErrOther    = errors.New("it is another cluster's folder")
	ErrForeign  = errors.New("root alone must be able to write it")
)

const (
	markName   = "cluster.json"
	memoryName = "shared-id"
	version    = 1
	maxMark    = 4096
)

// Mark says which cluster a shared folder belongs to.
type Mark struct {
	Version int       `json:"version"`
	ID      string    `json:"id"` // 32 hexadecimal digits
	Cluster string    `json:"cluster"`
	Made    time.Time `json:"made"`
}

// Init marks the folder at path, which must exist, for a cluster. A folder that is marked
// keeps its mark: isNew is false then, and the result is the mark that is there. Files that a
// daemon put into the folder before there were marks stay as they are.
func Init(path, cluster string) (mark Mark, isNew bool, err error) {
	if mark, err = readMark(path); err == nil || !errors.Is(err, ErrUnmarked) {
		return mark, false, err
	}
	mark = newMark(cluster)
	text, err := json.Marshal(mark)
	if err != nil {
		return Mark{}, false, err
	}
	switch err := writeOnce(path, markName, append(text, '\n'), 0o644); {
	case errors.Is(err, fs.ErrExist): // another node was quicker
		mark, err = readMark(path)
		return mark, false, err
	case err != nil:
		return Mark{}, false, err
	}
	return mark, true, nil
}

// Folder is the shared folder of a daemon. It is safe for concurrent use.
type Folder struct {
	path    string
	mark    Mark
	storeID string // of OpenStore; "": Check does not look at the store
}

// newMark returns a mark with a random ID.
func newMark(cluster string) Mark {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return Mark{Version: version, ID: hex.EncodeToString(id[:]), Cluster: cluster, Made: time.Now().UTC().Truncate(time.Second)}
}

// Known tells whether this node has worked with a shared folder before. lib is the node's own folder.
func Known(lib string) bool {
	_, err := os.Stat(filepath.Join(lib, memoryName))
	return err == nil
}

// CheckCluster returns an error that wraps ErrOther if a node that has not worked with a shared folder yet finds the folder
// of a cluster with another name: the jobs of both clusters have the same numbers. lib is the node's own folder. A folder
// without a mark, and a node that worked with a folder before, are left to Open.
func CheckCluster(path, lib, cluster string) error {
	mark, err := readMark(path)
	if err != nil || Known(lib) || strings.EqualFold(mark.Cluster, cluster) { // Slurm writes the name in small letters
		return nil //nolint:nilerr // Open returns the error
	}
	return fmt.Errorf("shared folder %s: %w: it is marked for cluster %q, and Slurm calls this one %q. Give each cluster a folder of its own; "+
		"if this one was renamed, write its name into %s", path, ErrOther, mark.Cluster, cluster, filepath.Join(path, markName))
}

// Open opens the folder at path. lib is the node's own folder, in which the shared folder's
// ID is remembered. The error wraps ErrUnmarked, ErrOther or ErrForeign.
func Open(path, lib string) (*Folder, error) {
	mark, err := readMark(path)
	if err != nil {
		return nil, err
	}
	known, err := os.ReadFile(filepath.Join(lib, memoryName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = writeOnce(lib, memoryName, []byte(mark.ID+"\n"), 0o600)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	case err != nil:
		return nil, fmt.Errorf("shared folder: %w", err)
	case strings.TrimSpace(string(known)) != mark.ID:
		return nil, fmt.Errorf("shared folder %s: %w: this node worked with %.8s, and this one is %.8s of cluster %q. "+
			"Is the right file system mounted? If the change is meant: rm %s",
			path, ErrOther, known, mark.ID, mark.Cluster, filepath.Join(lib, memoryName))
	}
	return &Folder{path: path, mark: mark}, nil
}

// Mark returns the folder's mark as it was when the folder was opened.
func (f *Folder) Mark() Mark { return f.mark }

// Check tells whether the folder and its store are still there, by their paths: a file system can
// be unmounted, or mounted over, while a daemon runs. It may hang as long as the file system does.
func (f *Folder) Check() error {
	mark, err := readMark(f.path)
	if err != nil {
		return err
	}
	if mark.ID != f.mark.ID {
		return fmt.Errorf("shared folder %s: %w: it was %.8s, and is %.8s of cluster %q now", f.path, ErrOther, f.mark.ID, mark.ID, mark.Cluster)
	}
	if f.storeID == "" {
		return nil
	}
	return checkStore(f.StorePath(), f.storeID)
}

// readMark reads the mark of a folder.
func readMark(path string) (Mark, error) {
	mark, err := readMarkFile(filepath.Join(path, markName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("shared folder %s: %w. Is its file system mounted? A new cluster's folder is marked once, by `proxyd init`", path, ErrUnmarked)
	case err != nil:
		err = fmt.Errorf("shared folder: %w", err)
	}
	return mark, err
}

// readMarkFile reads a mark, which must be a regular file that root alone can have written.
func readMarkFile(file string) (Mark, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return Mark{}, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return Mark{}, fmt.Errorf("%s: %w", file, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Uid != uint32(os.Geteuid()) || st.Mode&0o022 != 0 {
		return Mark{}, fmt.Errorf("%s: %w: owner %d, mode %04o", file, ErrForeign, st.Uid, st.Mode&0o7777)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxMark))
	if err != nil {
		return Mark{}, fmt.Errorf("%s: %w", file, err)
	}
	var mark Mark
	if err := json.Unmarshal(text, &mark); err != nil {
		return Mark{}, fmt.Errorf("%s: %w", file, err)
	}
	if _, err := hex.DecodeString(mark.ID); err != nil || len(mark.ID) != 32 || mark.Version != version {
		return Mark{}, fmt.Errorf("%s: version %d, ID %q: not made by this release", file, mark.Version, mark.ID)
	}
	return mark, nil
}

// writeOnce makes a file with all of its content at once; the error wraps fs.ErrExist if the file is there already.
func writeOnce(dir, name string, content []byte, mode os.FileMode) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("shared folder: %w", err)
		}
	}()
	f, err := os.CreateTemp(dir, name+".new-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // its other name stays
	defer f.Close()
	if _, err := f.Write(content); err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Link(f.Name(), filepath.Join(dir, name)); err != nil {
		return err
	}
	return durable.SyncFolder(dir)
}
