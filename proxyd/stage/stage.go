// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package stage keeps what a node has dumped until it is in the store. While a program is
// dumped its job stands still, so nothing is done then that can wait: each stream of a
// share is a plain file, as it came; it is hashed, compressed and compared when it is
// brought into the store and the job runs again.
//
//	DIR/                      owned by root, closed to everybody else, on one file system
//	  mini.812.3/             a share: this node's part of checkpoint mini/812/3
//	    index.json            what it consists of, written last
//	    0, 1, 2, …            its streams, but for those that a checkpoint in the store has
//	  mini.812.4.new/         one that is being written, or whose writer was killed
//	  mini.811.2.old/         one that is being removed
//
// A share exists when it has its final name: everything below that name is durable. It is
// not sealed, as what is in the store is: whoever can write here is root on the node whose
// memory it is. One Stage at a time may use a folder.
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

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// ErrLost is wrapped by the error of reading a share that is not there, or not whole:
// trying again would not help.
var ErrLost = errors.New("the share is lost")

// Stage is a folder of shares. It is safe for concurrent use.
type Stage struct {
	dir    string
	size   uint64 // what shares may take; 0: what there is
	memory bool   // dir is on a tmpfs

	mu     sync.Mutex
	rooms  map[*Room]struct{}
	making map[store.ID]*Share // that have not ended
}

const (
	beingMade    = ".new"
	beingRemoved = ".old"
)

// Open opens a folder that exists, and removes what a predecessor has left unfinished in
// it. size is what shares may take at most; 0: what the file system, and the memory that a
// tmpfs is made of, have.
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
	s := &Stage{dir: dir, size: size, memory: f.Type == unix.TMPFS_MAGIC, rooms: map[*Room]struct{}{}, making: map[store.ID]*Share{}}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if n := e.Name(); strings.HasSuffix(n, beingMade) || strings.HasSuffix(n, beingRemoved) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, n)))
		}
	}
	return s, err
}

// path is where the share of a checkpoint is. No part of an ID has a dot that could make
// two of them one: clusters come first, and what follows has none.
func (s *Stage) path(id store.ID) string {
	return filepath.Join(s.dir, strings.ReplaceAll(id.String(), "/", "."))
}

// parse is the inverse of path.
func parse(name string) (store.ID, bool) {
	rest, number, ok := cutLast(name)
	cluster, job, also := cutLast(rest)
	if !ok || !also {
		return store.ID{}, false
	}
	id, err := store.ParseID(cluster + "/" + job + "/" + number)
	return id, err == nil
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '.')
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}

// List returns the shares of a job, or of all if it is nil.
func (s *Stage) List(job *store.JobID) ([]Summary, error) {
	entries, err := os.ReadDir(s.dir)
	var all []Summary
	for _, e := range entries {
		id, ok := parse(e.Name())
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

// Delete removes a share. One that is not there is fs.ErrNotExist. Who reads it meanwhile
// sees it end.
func (s *Stage) Delete(id store.ID) error {
	at := s.path(id)
	if err := os.Rename(at, at+beingRemoved); err != nil {
		if !errors.Is(err, fs.ErrExist) && !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
		if err := errors.Join(os.RemoveAll(at+beingRemoved), os.Rename(at, at+beingRemoved)); err != nil {
			return err
		}
	}
	return errors.Join(syncFolder(s.dir), os.RemoveAll(at+beingRemoved))
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
