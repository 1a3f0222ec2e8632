// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// Mem is a Backend in memory that knows which names a power cut would undo. A Mem is safe for
// concurrent use.
type Mem struct {
	mu    sync.Mutex
	files map[string]*file
	dirs  map[string]map[string]bool // folders, and the names in them
	log   []change                   // not durable yet, oldest first
	free  uint64
	clock time.Time
}

var _ store.Backend = (*Mem)(nil)

type file struct {
	data []byte
	time time.Time
}

// change is a name that was made, moved or removed and may be undone.
type change struct {
	dirs []string
	undo func()
}

// NewMem returns an empty Mem with space without bound.
func NewMem() *Mem {
	return &Mem{files: map[string]*file{}, dirs: map[string]map[string]bool{".": {}}, free: 1 << 50, clock: time.Unix(1e9, 0)}
}

// SetFree says how many bytes Free returns; puts do not change that number.
func (m *Mem) SetFree(n uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free = n
}

// Advance moves the clock that dates files.
func (m *Mem) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clock = m.clock.Add(d)
}

// PowerCut undoes every change of a name that no Sync or Mkdir made durable, as a file
// system may.
func (m *Mem) PowerCut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := len(m.log) - 1; i >= 0; i-- {
		m.log[i].undo()
	}
	m.log = nil
}

// Files returns the contents of all files with names that begin with prefix.
func (m *Mem) Files(prefix string) map[string][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := make(map[string][]byte)
	for name, f := range m.files {
		if strings.HasPrefix(name, prefix) {
			found[name] = f.data
		}
	}
	return found
}

// Overwrite replaces a file's content behind the store's back.
func (m *Mem) Overwrite(name string, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.putFile(name, &file{data, m.clock})
}

func pathError(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

// checkParent checks that a name's folder is there.
func (m *Mem) checkParent(ctx context.Context, op, name string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if m.dirs[path.Dir(name)] == nil {
		return pathError(op, name, fs.ErrNotExist)
	}
	return nil
}

// setFile changes the file of a name and notes how to undo that.
func (m *Mem) setFile(name string, f *file) {
	old := m.files[name]
	m.putFile(name, f)
	m.log = append(m.log, change{[]string{path.Dir(name)}, func() {
		if m.files[name] == f {
			m.putFile(name, old)
		}
	}})
}

func (m *Mem) putFile(name string, f *file) {
	if dir := m.dirs[path.Dir(name)]; f == nil || dir == nil {
		delete(m.files, name)
		delete(dir, path.Base(name))
	} else {
		m.files[name] = f
		dir[path.Base(name)] = true
	}
}

// Put implements store.Backend.
func (m *Mem) Put(ctx context.Context, files ...store.File) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range files {
		if err := m.checkParent(ctx, "put", f.Name); err != nil {
			return err
		}
		m.setFile(f.Name, &file{append([]byte(nil), f.Data...), m.clock})
	}
	return nil
}

// Get implements store.Backend.
func (m *Mem) Get(ctx context.Context, name string, limit int, buf []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.files[name]
	switch {
	case context.Cause(ctx) != nil:
		return nil, context.Cause(ctx)
	case f == nil && m.dirs[name] != nil:
		return nil, pathError("get", name, fmt.Errorf("%w: a folder", store.ErrForeign))
	case f == nil:
		return nil, pathError("get", name, fs.ErrNotExist)
	case len(f.data) > limit:
		return nil, pathError("get", name, fmt.Errorf("%w: too long", store.ErrForeign))
	}
	return append(buf[:0], f.data...), nil
}

// Stat implements store.Backend.
func (m *Mem) Stat(ctx context.Context, name string) (store.Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := context.Cause(ctx); err != nil {
		return store.Info{}, err
	}
	if f := m.files[name]; f != nil {
		return store.Info{Size: int64(len(f.data)), ModTime: f.time}, nil
	}
	if m.dirs[name] != nil {
		return store.Info{Dir: true, ModTime: m.clock}, nil
	}
	return store.Info{}, pathError("stat", name, fs.ErrNotExist)
}

// List implements store.Backend.
func (m *Mem) List(ctx context.Context, dir string, f func(string) error) error {
	names, err := m.listNames(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := f(n); err != nil {
			return err
		}
	}
	return nil
}

func (m *Mem) listNames(dir string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dirs[dir] == nil {
		return nil, pathError("list", dir, fs.ErrNotExist)
	}
	return slices.Collect(maps.Keys(m.dirs[dir])), nil
}

// Move implements store.Backend.
func (m *Mem) Move(ctx context.Context, from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.files[from]
	if f == nil {
		return pathError("move", from, fs.ErrNotExist)
	}
	if err := m.checkParent(ctx, "move", to); err != nil {
		return err
	}
	if m.dirs[path.Dir(to)][path.Base(to)] {
		return pathError("move", to, fs.ErrExist)
	}
	m.putFile(from, nil)
	m.putFile(to, f)
	m.log = append(m.log, change{[]string{path.Dir(from), path.Dir(to)}, func() {
		if m.files[to] == f && m.files[from] == nil && m.dirs[path.Dir(from)] != nil {
			m.putFile(to, nil)
			m.putFile(from, f)
		}
	}})
	return nil
}

// Remove implements store.Backend.
func (m *Mem) Remove(ctx context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case context.Cause(ctx) != nil:
		return context.Cause(ctx)
	case m.files[name] != nil:
		m.setFile(name, nil)
		return nil
	case m.dirs[name] == nil:
		return pathError("remove", name, fs.ErrNotExist)
	case len(m.dirs[name]) > 0:
		return pathError("remove", name, store.ErrNotEmpty)
	}
	delete(m.dirs, name)
	delete(m.dirs[path.Dir(name)], path.Base(name))
	m.log = append(m.log, change{[]string{path.Dir(name)}, func() { m.makeFolder(name) }})
	return nil
}

// makeFolder makes a folder, if it is missing and its parent exists.
func (m *Mem) makeFolder(dir string) {
	if above := m.dirs[path.Dir(dir)]; above != nil && m.dirs[dir] == nil {
		m.dirs[dir] = map[string]bool{}
		above[path.Base(dir)] = true
	}
}

// Mkdir implements store.Backend.
func (m *Mem) Mkdir(ctx context.Context, dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.checkParent(ctx, "mkdir", dir); err != nil {
		return err
	}
	if m.dirs[dir] != nil || m.files[dir] != nil {
		return pathError("mkdir", dir, fs.ErrExist)
	}
	m.makeFolder(dir)
	m.syncFolder(path.Dir(dir))
	return nil
}

// Refresh implements store.Backend.
func (m *Mem) Refresh(ctx context.Context, dir string) error {
	return m.List(ctx, dir, func(string) error { return nil })
}

// Sync implements store.Backend.
func (m *Mem) Sync(ctx context.Context, dirs ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, dir := range dirs {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if m.dirs[dir] == nil {
			return pathError("sync", dir, fs.ErrNotExist)
		}
		m.syncFolder(dir)
	}
	return nil
}

// syncFolder forgets how to undo the changes of names in dir.
func (m *Mem) syncFolder(dir string) {
	var left []change
	for _, c := range m.log {
		if c.dirs[0] != dir && c.dirs[len(c.dirs)-1] != dir {
			left = append(left, c)
		}
	}
	m.log = left
}

// Free implements store.Backend.
func (m *Mem) Free(ctx context.Context) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.free, context.Cause(ctx)
}
