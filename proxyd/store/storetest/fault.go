// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"errors"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// ErrCrashed is returned by every call after the crash.
var ErrCrashed = errors.New("crashed")

// Cut is how much of its step a Fault carries out before it crashes.
type Cut int

// The values of Cut.
const (
	Before Cut = iota // no part of the step happened
	After             // the whole step happened, but the caller was not told
	Torn              // of a put, half of the files, and in tmp/ half of a file; else as Before
)

// Fault passes calls on to a Backend, counts the calls that make changes, and crashes at one of them: from then on all
// calls fail. A Fault is safe for concurrent use.
type Fault struct {
	store.Backend
	mu    sync.Mutex
	steps int
	at    int // the step that crashes, from 1; 0: no step
	cut   Cut
	err   error // the error of a crash
	stays bool  // later calls fail too
}

// NewFault returns a Fault that crashes at a step, counted from 1; 0 never crashes.
func NewFault(b store.Backend, at int, cut Cut) *Fault {
	return &Fault{Backend: b, at: at, cut: cut, err: ErrCrashed, stays: true}
}

// NewError returns a Fault of which a single step fails with err, and later steps do not.
func NewError(b store.Backend, at int, err error) *Fault {
	return &Fault{Backend: b, at: at, err: err}
}

// Steps returns the number of changes that callers asked for.
func (f *Fault) Steps() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.steps
}

// failOrApply carries out a change, or crashes.
func (f *Fault) failOrApply(change, torn func() error) error {
	f.mu.Lock()
	f.steps++
	now, dead := f.steps == f.at, f.stays && f.at > 0 && f.steps > f.at
	f.mu.Unlock()
	switch {
	case dead:
		return f.err
	case !now:
		return change()
	case f.cut == After:
		_ = change()
	case f.cut == Torn && torn != nil:
		_ = torn()
	}
	return f.err
}

// checkAlive is the answer of calls that make no changes.
func (f *Fault) checkAlive() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stays && f.at > 0 && f.steps >= f.at {
		return f.err
	}
	return nil
}

// Put implements store.Backend.
func (f *Fault) Put(ctx context.Context, files ...store.File) error {
	return f.failOrApply(
		func() error { return f.Backend.Put(ctx, files...) },
		func() error {
			half := len(files) / 2
			torn := store.File{Name: "tmp/torn", Data: files[half].Data[:len(files[half].Data)/2]}
			return f.Backend.Put(ctx, append(files[:half:half], torn)...)
		},
	)
}

// Move implements store.Backend.
func (f *Fault) Move(ctx context.Context, from, to string) error {
	return f.failOrApply(func() error { return f.Backend.Move(ctx, from, to) }, nil)
}

// Remove implements store.Backend.
func (f *Fault) Remove(ctx context.Context, name string) error {
	return f.failOrApply(func() error { return f.Backend.Remove(ctx, name) }, nil)
}

// Mkdir implements store.Backend.
func (f *Fault) Mkdir(ctx context.Context, dir string) error {
	return f.failOrApply(func() error { return f.Backend.Mkdir(ctx, dir) }, nil)
}

// Sync implements store.Backend.
func (f *Fault) Sync(ctx context.Context, dirs ...string) error {
	return f.failOrApply(func() error { return f.Backend.Sync(ctx, dirs...) }, nil)
}

// Refresh implements store.Backend.
func (f *Fault) Refresh(ctx context.Context, dir string) error {
	if err := f.checkAlive(); err != nil {
		return err
	}
	return f.Backend.Refresh(ctx, dir)
}

// Get implements store.Backend.
func (f *Fault) Get(ctx context.Context, name string, limit int, buf []byte) ([]byte, error) {
	if err := f.checkAlive(); err != nil {
		return nil, err
	}
	return f.Backend.Get(ctx, name, limit, buf)
}

// Stat implements store.Backend.
func (f *Fault) Stat(ctx context.Context, name string) (store.Info, error) {
	if err := f.checkAlive(); err != nil {
		return store.Info{}, err
	}
	return f.Backend.Stat(ctx, name)
}

// List implements store.Backend.
func (f *Fault) List(ctx context.Context, dir string, each func(string) error) error {
	if err := f.checkAlive(); err != nil {
		return err
	}
	return f.Backend.List(ctx, dir, each)
}

// Free implements store.Backend.
func (f *Fault) Free(ctx context.Context) (uint64, error) {
	if err := f.checkAlive(); err != nil {
		return 0, err
	}
	return f.Backend.Free(ctx)
}
