// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package stage stores the dumps of a node until they are in the store. A job is frozen during
// its dump, so all work that can wait is done later: each stream of a share is a plain file, which
// is hashed, compressed and compared only when it is copied into the store, while the job runs
// again.
//
//	DIR/                      owned by root, closed to all other users, on a single file system
//	  mini.812.3/             a share: this node's part of checkpoint mini/812/3
//	    index.json            the list of its streams, written last
//	    0, 1, 2, …            its streams, except streams that a checkpoint in the store has
//	  mini.812.4.new/         a share that is being written, or that a killed process wrote
//	  mini.811.2.old/         a share that is being removed
//
// A share exists when it has its final name: everything below that name is durable. A share is
// not authenticated as the contents of the store are: a process that can write here is root on
// the node that runs the job. A folder may be used by a single Stage at a time.
package stage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/durable"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// ErrLost is wrapped by an error of reading a share that is missing or incomplete: another try
// cannot succeed.
var ErrLost = errors.New("the share is lost")

// Stage is a folder of shares. A Stage is safe for concurrent use.
type Stage struct {
	dir    string
	size   uint64 // limit for all shares; 0: the free space
	memory bool   // dir is on a tmpfs

	mu         sync.Mutex
	rooms      map[*Room]struct{}
	unfinished map[store.ID]*Share // shares that are being written
}

const (
	beingMade    = ".new"
	beingRemoved = ".old"
)

// Open opens an existing folder, and removes unfinished shares of a predecessor. size limits the
// bytes of all shares; 0: the free space of the file system, or the free memory for a tmpfs.
func Open(dir string, size uint64) (*Stage, error) {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return nil, fmt.Errorf("%s: not a folder", dir)
	case int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0:
		return nil, fmt.Errorf("%s: must belong to root and be closed to everybody else (chown root, chmod 700)", dir)
	}
	var f unix.Statfs_t
	if err := unix.Statfs(dir, &f); err != nil {
		return nil, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	s := &Stage{dir: dir, size: size, memory: f.Type == unix.TMPFS_MAGIC, rooms: map[*Room]struct{}{}, unfinished: map[store.ID]*Share{}}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if n := e.Name(); strings.HasSuffix(n, beingMade) || strings.HasSuffix(n, beingRemoved) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, n)))
		}
	}
	return s, err
}

// sharePath returns the folder of a checkpoint's share. The path is unique: the cluster comes first,
// and no later part contains a dot.
func (s *Stage) sharePath(id store.ID) string {
	return filepath.Join(s.dir, strings.ReplaceAll(id.String(), "/", "."))
}

// parseShareName is the inverse of sharePath.
func parseShareName(name string) (store.ID, bool) {
	rest, number, ok := cutAtLast(name)
	cluster, job, also := cutAtLast(rest)
	if !ok || !also {
		return store.ID{}, false
	}
	id, err := store.ParseID(cluster + "/" + job + "/" + number)
	return id, err == nil
}

func cutAtLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '.')
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}

// List returns the shares of a job; nil: of all jobs.
func (s *Stage) List(job *store.JobID) ([]Summary, error) {
	entries, err := os.ReadDir(s.dir)
	var all []Summary
	for _, e := range entries {
		id, ok := parseShareName(e.Name())
		if !ok || job != nil && id.JobID != *job {
			continue
		}
		_, broken := s.Open(id)
		sum := Summary{ID: id, Err: broken}
		if st, err := e.Info(); err == nil {
			sum.Committed = st.ModTime()
		} else {
			sum.Err = errors.Join(broken, err)
		}
		all = append(all, sum)
	}
	return all, err
}

// Delete removes a share. The error for a missing share is fs.ErrNotExist. A reader of the share
// sees its end early.
func (s *Stage) Delete(id store.ID) error {
	at := s.sharePath(id)
	if err := os.Rename(at, at+beingRemoved); err != nil {
		if !errors.Is(err, fs.ErrExist) && !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
		if err := errors.Join(os.RemoveAll(at+beingRemoved), os.Rename(at, at+beingRemoved)); err != nil {
			return err
		}
	}
	return errors.Join(durable.SyncFolder(s.dir), os.RemoveAll(at+beingRemoved))
}
