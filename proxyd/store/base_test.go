// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"sync"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/storetest"
)

// carryCheckpoint commits a checkpoint with the streams of another checkpoint, of that many ranks. between is called
// when the base is known.
func carryCheckpoint(ctx context.Context, s *store.Store, id, from store.ID, ranks int, between func()) (err error) {
	w, err := s.Create(ctx, store.Upload{ID: id, Node: "n1"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Abort(ctx)) }()
	base, err := w.Base(ctx, from)
	if err != nil {
		return err
	}
	between()
	for n := range ranks {
		from := store.StreamID{Node: "n1", Rank: n, Name: "pages-1.img"}
		if err := base.Carry(ctx, from, n, "pages-1.img"); err != nil {
			return err
		}
	}
	_, err = w.Commit(ctx, nil)
	return err
}

// TestCarry: a stream that is taken over is the same, for each length and recipe, counts as found, and puts no chunk.
func TestCarry(t *testing.T) {
	be := storetest.NewMem()
	s := openStore(t, be, store.Options{})
	image := storetest.NewImage(1, 3000).Bytes()
	short := append(make([]byte, 3*4096), "short"...)
	ranks := [][]byte{image, short, nil, make([]byte, 1<<20), image[:100001]}
	failOn(t, dumpRanks(t.Context(), s, checkpointID(1, 1), ranks...))
	puts := len(be.Files("chunks/"))
	failOn(t, carryCheckpoint(t.Context(), s, checkpointID(1, 2), checkpointID(1, 1), len(ranks), func() {}))
	if now := len(be.Files("chunks/")); now != puts {
		t.Errorf("%d chunks, and %d before", now, puts)
	}
	for n, want := range ranks {
		if !bytes.Equal(readStream(t, s, checkpointID(1, 2), n), want) {
			t.Errorf("stream %d differs", n)
		}
	}
	list := mustReturn(s.List(t.Context(), nil))
	was, is := list[0].Stats, list[1].Stats
	if is.New != 0 || is.Stored != 0 || is.Dedup != was.New+was.Dedup || is.Logical != was.Logical || is.Zero != was.Zero || is.Inline != was.Inline || is.Chunks != was.Chunks {
		t.Errorf("stats of the second checkpoint = %+v, of the first %+v: want all bytes found", is, was)
	}
	if r, err := s.Verify(t.Context(), nil, nil); err != nil || len(r.Problems) > 0 {
		t.Errorf("Verify = %+v, %v, want no problems", r, err)
	}
}

// TestCarryRefused: a stream that does not exist cannot be taken over, and no stream can be taken over twice.
func TestCarryRefused(t *testing.T) {
	s := openStore(t, storetest.NewMem(), store.Options{})
	failOn(t, dumpRanks(t.Context(), s, checkpointID(1, 1), []byte("a")))
	failOn(t, dumpRanks(t.Context(), s, checkpointID(1, 2), []byte("b")))
	failOn(t, s.Delete(t.Context(), checkpointID(1, 2)))
	w := mustReturn(s.Create(t.Context(), store.Upload{ID: checkpointID(1, 3), Node: "n1"}))
	if _, err := w.Base(t.Context(), checkpointID(1, 2)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a deleted one: %v", err)
	}
	b := mustReturn(w.Base(t.Context(), checkpointID(1, 1)))
	at := store.StreamID{Node: "n1", Rank: 0, Name: "pages-1.img"}
	if err := b.Carry(t.Context(), store.StreamID{Node: "n1", Rank: 1, Name: "pages-1.img"}, 0, "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no stream: %v", err)
	}
	failOn(t, b.Carry(t.Context(), at, 0, "x"))
	if err := b.Carry(t.Context(), at, 0, "x"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("second Carry of a name: error %v, want fs.ErrExist", err)
	}
	if _, err := w.Stream(0, "x"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("written as well: %v", err)
	}
	failOn(t, w.Abort(t.Context()))
	if _, err := w.Base(t.Context(), checkpointID(1, 1)); !errors.Is(err, store.ErrAborted) {
		t.Errorf("after its end: %v", err)
	}
}

// TestCarryOutlivesItsBase: the base is deleted while its streams are taken over, and
// collections run; then the base is gone and the new checkpoint is whole.
func TestCarryOutlivesItsBase(t *testing.T) {
	s := openStore(t, storetest.NewMem(), store.Options{})
	image := storetest.NewImage(3, 200).Bytes()
	collect := func() {
		for range 3 {
			mustReturn(s.GC(t.Context(), store.Policy{}, nil, false))
		}
	}
	failOn(t, dumpRanks(t.Context(), s, checkpointID(1, 1), image))
	failOn(t, carryCheckpoint(t.Context(), s, checkpointID(1, 2), checkpointID(1, 1), 1, func() {
		failOn(t, s.Delete(t.Context(), checkpointID(1, 1)))
		collect()
	}))
	collect()
	if !bytes.Equal(readStream(t, s, checkpointID(1, 2), 0), image) {
		t.Error("a checkpoint whose base was deleted reads back with other bytes")
	}
	// An upload that is not committed keeps no chunk.
	failOn(t, s.Delete(t.Context(), checkpointID(1, 2)))
	collect()
	if r := mustReturn(s.GC(t.Context(), store.Policy{}, nil, false)); r.Open+int(r.Waiting) != 0 {
		t.Errorf("report of the collection = %+v, want that no object waits", r)
	}
}

// TestCarriersAndCollectors: chains of checkpoints, each made of the checkpoint before, which is
// deleted at any moment, on several nodes, beside collectors.
func TestCarriersAndCollectors(t *testing.T) { runSeeded(t, testCarriers) }

func testCarriers(t *testing.T, openBackend func() store.Backend, seed uint64) {
	image := storetest.NewImage(seed, 60).Bytes()
	var nodes, collectors sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		s := openStore(t, openBackend(), store.Options{})
		collectors.Go(func() {
			for {
				if _, err := s.GC(t.Context(), store.Policy{}, nil, false); err != nil && !errors.Is(err, store.ErrBusy) {
					t.Errorf("GC: %v", err)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for node := range uint32(3) {
		s := openStore(t, openBackend(), store.Options{})
		nodes.Go(func() {
			err := dumpRanks(t.Context(), s, checkpointID(node+1, 1), image)
			for n := uint32(2); n < 16 && err == nil; n++ {
				last := checkpointID(node+1, n-1)
				gone := make(chan error, 1)
				err = carryCheckpoint(t.Context(), s, checkpointID(node+1, n), last, 1, func() {
					go func() { gone <- s.Delete(t.Context(), last) }()
				})
				err = errors.Join(err, <-gone)
			}
			if err != nil {
				t.Errorf("chain of node %d: %v", node, err)
			}
		})
	}
	nodes.Wait()
	close(done)
	collectors.Wait()
	s := openStore(t, openBackend(), store.Options{})
	if r, err := s.Verify(t.Context(), nil, nil); err != nil || len(r.Problems) > 0 || r.Checkpoints != 3 {
		t.Errorf("Verify = %+v, %v, want 3 checkpoints without problems", r, err)
	}
}

// TestCarryKilled: after an upload dies at any change to the store, its checkpoint is either whole or does not exist,
// and its base is whole.
func TestCarryKilled(t *testing.T) {
	image := storetest.NewImage(5, 100).Bytes()
	for at := 1; ; at++ {
		mem := storetest.NewMem()
		failOn(t, dumpRanks(t.Context(), openStore(t, mem, store.Options{}), checkpointID(1, 1), image))
		fault := storetest.NewFault(mem, at, storetest.After)
		s, err := store.Open(t.Context(), fault, testKey, store.Options{})
		if err == nil {
			err = carryCheckpoint(t.Context(), s, checkpointID(1, 2), checkpointID(1, 1), 1, func() {})
			s.Close()
		}
		mem.PowerCut()
		after := openStore(t, mem, store.Options{})
		all := mustReturn(after.List(t.Context(), nil))
		for _, c := range all {
			if !bytes.Equal(readStream(t, after, c.ID, 0), image) {
				t.Fatalf("step %d: %s differs", at, c.ID)
			}
		}
		if err == nil {
			if len(all) != 2 || at < 5 {
				t.Fatalf("%d steps, %d checkpoints", at, len(all))
			}
			return
		}
	}
}

// TestNewest: Newest returns the highest number, not the latest checkpoint.
func TestNewest(t *testing.T) {
	s := openStore(t, storetest.NewMem(), store.Options{})
	if _, ok, err := s.Newest(t.Context(), checkpointID(1, 1).JobID); ok || err != nil {
		t.Errorf("Newest of an empty store: found %v, error %v", ok, err)
	}
	for _, n := range []uint32{2, 10, 9} {
		failOn(t, dumpRanks(t.Context(), s, checkpointID(1, n), []byte("a")))
	}
	failOn(t, dumpRanks(t.Context(), s, checkpointID(2, 11), []byte("a")))
	if id, ok, err := s.Newest(t.Context(), checkpointID(1, 1).JobID); id != checkpointID(1, 10) || !ok || err != nil {
		t.Errorf("Newest = %v, %v, %v, want number 10", id, ok, err)
	}
}
