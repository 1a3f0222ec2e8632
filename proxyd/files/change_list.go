// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Names in a change list's folder. The environment variable Env tells the shim the path of ListName
// as the capsule sees that path.
const (
	ListName = "list"
	moreName = "list.more"
	Env      = "SINGULARITY_SLURM_FILES"
)

// Limits of the bytes that are read from lists that a user fills.
const (
	maxMore    = 64 << 20 // of the second file, at a time
	maxLog     = 256 << 20
	maxPending = 64
)

// minFreed is the least space of the second file that is freed at a time.
const minFreed = 1 << 20

// CreateChangeList makes an empty list in dir for the shims of a capsule's processes; the programs of uid can write to the
// list. dir is root's, and is made if missing. The caller binds dir into the capsule at a path that never changes in
// the job's life: restored processes have the list mapped. The lists that were in dir are replaced; no process may be
// using the old list.
func CreateChangeList(dir string, uid, gid uint32) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	run := rand.Text()[:runSize]
	for _, name := range []string{ListName, moreName} {
		if err := createFile(filepath.Join(dir, name), name == ListName, run, uid, gid); err != nil {
			return err
		}
	}
	return nil
}

func createFile(path string, isList bool, run string, uid, gid uint32) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if isList {
		// Blocks are allocated now: a program that wrote a page for which there is no space would get a SIGBUS.
		if err := unix.Fallocate(int(f.Fd()), 0, 0, listSize); err != nil {
			if _, err := f.Write(make([]byte, listSize)); err != nil {
				return err
			}
		}
		if _, err := f.WriteAt(listHead{tail: firstAt, first: firstAt, epoch: 1, run: run}.encodeHead(), 0); err != nil {
			return err
		}
	}
	return f.Chown(int(uid), int(gid))
}

// Mark is a place in a change list's log.
type Mark int64

// pathChanges has the changes that are known of a path.
type pathChanges struct {
	wrote  bool   // not only appended to
	mapped bool   // see Mapped
	id     uint64 // of the file, if the kernel saw the file last
}

// ChangeList records the changes that the programs of a single capsule make to files, for the job's life: the entries that
// the shims of its processes write into the list, and those of Add, in a single log. A log on a shared folder outlives
// the node; a crash of the node then loses the changes since the last Sync. The methods may be called concurrently.
type ChangeList struct {
	list, more, log *os.File
	logPath         string

	mu             sync.Mutex
	run            string
	pos            int64                  // in the list
	morePos        int64                  // in the second file
	freed          int64                  // of the second file: the space up to here is freed
	lost           uint64                 // as the list counts
	begin, end     int64                  // of the log: places that a Mark means
	shift          int64                  // what is added to a position in the log's file to have such a place
	pending        map[int64]bool         // places in the list before pos that may still be completed
	known          map[string]pathChanges // paths since the last Cut
	loggedUnsure   map[int64]bool         // pending places that the log has as Unsure
	tail           []byte                 // of the log, up to end: not known to be durable
	written        int                    // how much of the tail is in the file
	losing         bool                   // the log says since the last Cut that an entry is missing
	ranWithoutShim bool                   // a program bypassed the shim, at some time
	missed         bool                   // a program could bypass the shim while no Watch ran
	watcher        *watcher
	real           func(path string) string // nil: paths are as they are seen
}

// OpenChangeList opens the list in dir, made by CreateChangeList, and the log, which is made if
// missing. Exactly one ChangeList may be open on a log. After a restart of the caller the new
// ChangeList continues where the last ChangeList stopped; with a new list, the new ChangeList continues
// the old log.
func OpenChangeList(dir, log string) (*ChangeList, error) {
	j := &ChangeList{logPath: log, pending: map[int64]bool{}, known: map[string]pathChanges{}, loggedUnsure: map[int64]bool{}}
	if err := j.openLists(dir, log); err != nil {
		j.closeFiles()
		return nil, fmt.Errorf("journal %s: %w", dir, err)
	}
	return j, nil
}

func (j *ChangeList) openLists(dir, log string) (err error) {
	// The files are the user's, but not the names: the folder is root's.
	if j.list, err = os.OpenFile(filepath.Join(dir, ListName), os.O_RDWR|unix.O_NOFOLLOW, 0); err != nil {
		return err
	}
	if j.more, err = os.OpenFile(filepath.Join(dir, moreName), os.O_RDWR|unix.O_NOFOLLOW, 0); err != nil {
		return err
	}
	if j.log, err = os.OpenFile(log, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	head, err := j.readHead()
	if err != nil {
		return err
	}
	j.run = head.run
	j.lost = head.lost
	j.pos = head.firstRecord()
	end, err := readLog(j.log, 0, func(e Entry, ends int64) {
		j.ranWithoutShim = j.ranWithoutShim || e.Kind == anchorWithoutShim
		switch {
		case e.Kind == anchorBegin:
			j.begin, j.shift = e.Size, e.Size-ends
		case e.Path != j.run:
		case e.Kind == anchorWithoutShim:
			j.missed = true
		case e.Kind == anchorList:
			j.pos = max(head.firstRecord(), e.Size)
		case e.Kind == anchorMore:
			j.morePos = max(0, e.Size)
		}
	})
	if err != nil {
		return err
	}
	j.end = end + j.shift
	return j.log.Truncate(end) // the entry that was half written
}

// Close brings the rest of the list into the log, and closes the files. Close the ChangeList of a capsule before
// CreateChangeList replaces its list.
func (j *ChangeList) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	err := j.syncLists(true)
	j.closeFiles()
	return err
}

func (j *ChangeList) closeFiles() {
	for _, f := range []*os.File{j.list, j.more, j.log} {
		if f != nil {
			f.Close()
		}
	}
}

func (j *ChangeList) readHead() (listHead, error) {
	b := make([]byte, tableAt)
	if _, err := j.list.ReadAt(b, 0); err != nil {
		return listHead{}, err
	}
	return parseHead(b)
}

// Run calls Sync every period until ctx ends. There is no event to wait for: the list is a mapping. Run goes on after
// an error of Sync, which it passes to report if the Sync before had no error, and passes nil to report when Sync
// succeeds again.
func (j *ChangeList) Run(ctx context.Context, period time.Duration, report func(error)) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			err := j.Sync()
			if failing != (err != nil) {
				report(err)
			}
			failing = err != nil
		}
	}
}

// Sync brings the new entries of the list into the log, durably.
func (j *ChangeList) Sync() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.syncLists(false)
}

// Cut brings everything into the log, also entries of changes that programs were about to make, and makes the shims
// forget which paths they have recorded. The programs must be frozen. Their later changes are behind the Mark.
func (j *ChangeList) Cut() (Mark, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := errors.Join(j.syncLists(true), j.emptySecondList()); err != nil {
		return 0, err
	}
	head, err := j.readHead()
	if err != nil {
		return 0, err
	}
	b := binary.LittleEndian.AppendUint64(nil, head.epoch+1)
	if _, err := j.list.WriteAt(b, epochAt); err != nil {
		return 0, err
	}
	clear(j.known)
	j.losing = false
	return Mark(j.end), nil
}

// Add appends changes that were observed without the shim, if the change list does not have these paths since the last
// Cut. The entries are durable with the next Sync that returns no error.
func (j *ChangeList) Add(entries ...Entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	b, err := j.newEntries(false) // the shim knows more than the kernel tells
	for _, e := range entries {
		if j.real != nil {
			if e.Path = j.real(e.Path); belowAny(cleanPath(e.Path), travelling) {
				continue
			}
		}
		was, ok := j.known[e.Path]
		another := e.Kind == Closed && was.id != 0 && was.id != e.ID
		if e.isValid() && (!ok || another || !was.wrote && e.Kind != Appended || !was.mapped && e.Kind == Mapped) {
			b = j.appendEntry(b, e)
		}
	}
	j.appendRecords(b)
	return err
}

// SetRealPath makes Add record each file under the path that real returns for the path under which
// the file was seen: files of a container are seen at the place where the capsule shows the
// container.
func (j *ChangeList) SetRealPath(real func(path string) string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.real = real
}

// Drain brings the reports that a Watch has received so far into the change list. The caller calls Drain when the programs
// are frozen, before Cut.
func (j *ChangeList) Drain(ctx context.Context) error {
	j.mu.Lock()
	w := j.watcher
	j.mu.Unlock()
	if w == nil {
		return nil
	}
	// To take an event opens its file, which can hang with a file server.
	done := make(chan error, 1)
	go func() { done <- w.drainEvents() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// NoteContainer has the kernel report from now on which files are written on the capsule's mounts, those of a container that
// has just been shown included. The caller calls NoteContainer before a program starts that has the container for its root: it
// bypasses the shim.
func (j *ChangeList) NoteContainer() error {
	if ever, _ := j.hadBypass(); !ever {
		j.recordBypass() // for a Watch that begins later
	}
	j.mu.Lock()
	w := j.watcher
	j.mu.Unlock()
	if w == nil {
		return nil
	}
	if err := w.markNewMounts(); !errors.Is(err, errGone) {
		return err
	}
	return nil
}

func (j *ChangeList) setWatcher(w *watcher) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.watcher = w
}

// markIncomplete notes in the log that changes are missing.
func (j *ChangeList) markIncomplete() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.losing {
		j.losing = true
		j.appendRecords(appendRecord(nil, Entry{Kind: anchorLost, Path: j.run}))
	}
}

// hadBypass says whether a program of the job has bypassed the shim, now or before, and in
// unwatched whether a program may have done so while no Watch ran.
func (j *ChangeList) hadBypass() (ever, unwatched bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.ranWithoutShim, j.missed
}

// recordBypass notes in the log that a program has bypassed the shim, for the next ChangeList on this
// log.
func (j *ChangeList) recordBypass() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ranWithoutShim = true
	j.appendRecords(appendRecord(nil, Entry{Kind: anchorWithoutShim, Path: j.run}))
}
