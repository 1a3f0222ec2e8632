// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/storetest"
)

// processLife is the work of a single process with a store in the crash tests. It records the store's answers, for the
// check of the store afterwards.
type processLife struct {
	data      map[store.ID][]byte
	committed map[store.ID]bool // Commit returned nil
	deleted   map[store.ID]bool // Delete was called
}

func newLife() *processLife {
	a := storetest.NewImage(1, 60)
	return &processLife{
		data: map[store.ID][]byte{
			checkpointID(1, 1): a.Bytes(),
			checkpointID(1, 2): a.Touch(1, 3).Bytes(),
			checkpointID(1, 3): a.Insert(1, 2).Bytes(),
			checkpointID(2, 1): storetest.NewImage(2, 30).Bytes(),
		},
		committed: map[store.ID]bool{}, deleted: map[store.ID]bool{},
	}
}

func (l *processLife) dumpCheckpoint(ctx context.Context, s *store.Store, id store.ID) error {
	err := dumpRanks(ctx, s, id, l.data[id])
	l.committed[id] = l.committed[id] || err == nil
	return err
}

// runLife does that work, up to the first error.
func (l *processLife) runLife(ctx context.Context, be store.Backend) error {
	s, err := store.Open(ctx, be, testKey, store.Options{Beat: time.Hour, Lanes: 1, Workers: 1})
	if err != nil {
		return err
	}
	defer s.Close()
	gc := func() error {
		_, err := s.GC(ctx, store.Policy{}, nil, false)
		return err
	}
	drop := func(id store.ID) error {
		l.deleted[id] = true
		return s.Delete(ctx, id)
	}
	aborted := func() error {
		w, err := s.Create(ctx, store.Upload{ID: checkpointID(9, 9), Node: "n1"})
		if err == nil {
			err = errors.Join(writeRanks(w, [][]byte{l.data[checkpointID(2, 1)]}), w.Abort(ctx))
		}
		return err
	}
	for _, step := range []func() error{
		func() error { return l.dumpCheckpoint(ctx, s, checkpointID(1, 1)) },
		aborted,
		func() error { return l.dumpCheckpoint(ctx, s, checkpointID(1, 2)) },
		func() error { return drop(checkpointID(1, 1)) },
		gc,
		func() error { return l.dumpCheckpoint(ctx, s, checkpointID(2, 1)) },
		func() error { return l.dumpCheckpoint(ctx, s, checkpointID(1, 3)) },
		func() error { return drop(checkpointID(1, 2)) },
		gc,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// inspectStore opens the store after the crash and checks that it has all that its answers promised.
func (l *processLife) inspectStore(t *testing.T, be *storetest.Mem) {
	t.Helper()
	ctx := t.Context()
	now := time.Now()
	s, err := store.Open(ctx, be, testKey, store.Options{Lapse: time.Minute, Now: func() time.Time { return now }})
	failOn(t, err)
	defer s.Close()
	whole := func() {
		t.Helper()
		for id := range l.committed {
			got, err := readBack(ctx, s, id, 0)
			gone := errors.Is(err, fs.ErrNotExist) && l.deleted[id]
			if l.committed[id] && !gone && (err != nil || !bytes.Equal(got, l.data[id])) {
				t.Fatalf("%s was committed: %d bytes, %v", id, len(got), err)
			}
		}
		report, err := s.Verify(ctx, nil, nil)
		if err != nil || len(report.Problems) > 0 {
			t.Fatalf("Verify after the crash = %+v, %v, want no problems", report, err)
		}
	}
	whole()
	failOn(t, dumpRanks(ctx, s, checkpointID(5, 5), l.data[checkpointID(1, 1)]))
	collectAll(t, s, &now)
	whole()
	// No file stays when all checkpoints are deleted and all owners are dead.
	list, err := s.List(ctx, nil)
	failOn(t, err)
	for _, c := range list {
		failOn(t, s.Delete(ctx, c.ID))
	}
	be.Advance(48 * time.Hour)
	collectAll(t, s, &now)
	for name := range be.Files("") {
		if name != "format" {
			t.Fatalf("%s is left", name)
		}
	}
}

// collectAll runs GC until the dead have lapsed.
func collectAll(t *testing.T, s *store.Store, now *time.Time) {
	t.Helper()
	for range 3 {
		if _, err := s.GC(t.Context(), store.Policy{}, nil, false); err != nil && !errors.Is(err, store.ErrBusy) {
			t.Fatal(err)
		}
		*now = now.Add(time.Hour)
	}
	if _, err := s.GC(t.Context(), store.Policy{}, nil, false); err != nil {
		t.Fatal(err)
	}
}

// TestCrashAtEveryStep kills a life at each of its changes, in every way, with and without a power cut, and checks the
// store that is left.
func TestCrashAtEveryStep(t *testing.T) {
	base := preparedMem(t)
	count := storetest.NewFault(base(), 0, storetest.Before)
	failOn(t, newLife().runLife(t.Context(), count))
	steps := count.Steps()
	stride := 1
	if testing.Short() {
		stride = 11
	} else if raceEnabled {
		stride = 5
	}
	t.Logf("%d steps, every %d-th", steps, stride)
	for _, cut := range []storetest.Cut{storetest.Before, storetest.After, storetest.Torn} {
		for _, power := range []bool{false, true} {
			for at := 1; at <= steps; at += stride {
				t.Run(fmt.Sprintf("cut=%d power=%t step=%d", cut, power, at), func(t *testing.T) {
					be := base()
					l := newLife()
					err := l.runLife(t.Context(), storetest.NewFault(be, at, cut))
					// The last steps may only be tidying up, so their failure does not matter.
					if err != nil && !errors.Is(err, storetest.ErrCrashed) {
						t.Fatalf("the crash surfaced as %v", err)
					}
					if power {
						be.PowerCut()
					}
					l.inspectStore(t, be)
				})
			}
		}
	}
}

// TestErrorAtEveryStep makes each change fail once, as a full disk does, and lets the
// process go on.
func TestErrorAtEveryStep(t *testing.T) {
	base := preparedMem(t)
	count := storetest.NewFault(base(), 0, storetest.Before)
	failOn(t, newLife().runLife(t.Context(), count))
	stride := 1
	if testing.Short() || raceEnabled {
		stride = 5
	}
	for at := 1; at <= count.Steps(); at += stride {
		be := base()
		l := newLife()
		err := l.runLife(t.Context(), storetest.NewError(be, at, fmt.Errorf("put: %w", syscall.ENOSPC)))
		// A collector that could not take its place back is found dead later.
		if err != nil && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, store.ErrBusy) {
			t.Fatalf("step %d: surfaced as %v", at, err)
		}
		if err != nil && !strings.Contains(err.Error(), "mini/") && !strings.Contains(err.Error(), "collect") {
			t.Fatalf("step %d: %v names no checkpoint", at, err)
		}
		l.inspectStore(t, be)
	}
}

// preparedMem returns a function that makes stores that are open already: the crash tests are not about making their
// 256 folders.
func preparedMem(t *testing.T) func() *storetest.Mem {
	return func() *storetest.Mem {
		be := storetest.NewMem()
		s, err := store.Open(t.Context(), be, testKey, store.Options{})
		failOn(t, err)
		s.Close()
		return be
	}
}

// TestCrashWhilePreparing kills a process while it makes a store.
func TestCrashWhilePreparing(t *testing.T) {
	for at := 1; at < 300; at += 10 {
		be := storetest.NewMem()
		_, err := store.Open(t.Context(), storetest.NewFault(be, at, storetest.After), testKey, store.Options{})
		if err != nil && !errors.Is(err, storetest.ErrCrashed) {
			t.Fatal(err)
		}
		be.PowerCut()
		openStore(t, be, store.Options{})
	}
}
