// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/sha256"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/posix"
)

// shelf is a store with checkpoints of a single server each, by numbers.
type shelf struct {
	t testing.TB
	*store.Store
}

func newShelf(t testing.TB) *shelf {
	t.Helper()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	ok(os.Chmod(dir, 0o700))
	be, err := posix.Open(dir)
	ok(err)
	t.Cleanup(func() { be.Close() })
	key, err := store.NewKey(make([]byte, 32))
	ok(err)
	s, err := store.Open(t.Context(), be, key, store.Options{})
	ok(err)
	t.Cleanup(s.Close)
	return &shelf{t, s}
}

func nthID(n uint32) store.ID {
	return store.ID{JobID: store.PlainJob("test", 1), Number: n}
}

// writing is a checkpoint that is being made.
type writing struct{ *store.Writer }

func (w writing) Create(name string) (io.WriteCloser, error) {
	if strings.HasPrefix(name, BlocksPrefix) {
		return w.Blocks(store.None, name, backend.Granule)
	}
	return w.Stream(store.None, name)
}

// saveNth saves as the n-th, upon another save of that ID, which is 0 and "" for a save upon no other. A save that is
// lost is not committed.
func (h *shelf) saveNth(s *Server, n, on uint32, upon string, lost bool) *Report {
	h.t.Helper()
	ctx := h.t.Context()
	w, err := h.Create(ctx, store.Upload{ID: nthID(n), Node: "n1"})
	if err != nil {
		h.t.Fatal(err)
	}
	r, err := s.Save(ctx, writing{w}, SaveOptions{Upon: upon})
	if err == nil && len(r.Kept) > 0 {
		var base *store.Base
		base, err = w.Base(ctx, nthID(on))
		for _, name := range r.Kept {
			if err == nil {
				err = base.Carry(ctx, store.StreamID{Node: "n1", Rank: store.None, Name: name}, store.None, name)
			}
		}
	}
	if err == nil && !lost {
		_, err = w.Commit(ctx, nil)
	}
	if err := errors.Join(err, w.Abort(ctx)); err != nil {
		h.t.Fatal(err)
	}
	return r
}

// reading is a checkpoint as a Source.
type reading struct{ *store.Reader }

func (r reading) Open(name string) (io.ReadCloser, error) {
	return r.Stream(store.StreamID{Node: "n1", Rank: store.None, Name: name})
}

// hashBlocks returns the hashes of all blocks of a server's memory that are not zero.
func hashBlocks(t *testing.T, s *Server) map[backend.BlockID][32]byte {
	t.Helper()
	all, zero := map[backend.BlockID][32]byte{}, sha256.Sum256(make([]byte, backend.Granule))
	block := make([]byte, backend.Granule)
	for _, p := range s.allProcesses() {
		for _, sp := range p.Spaces() {
			var ids []backend.BlockID
			err := sp.Blocks(new([32]byte), func(id backend.BlockID, _ backend.Hash) bool { ids = append(ids, id); return true })
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range ids {
				some, err := sp.ReadBlock(id, block)
				if err != nil {
					t.Fatal(err)
				}
				if h := sha256.Sum256(block); some && h != zero {
					all[id] = h
				}
			}
		}
	}
	return all
}

// checkRestored compares the memory that a checkpoint brings back.
func (h *shelf) checkRestored(t *testing.T, n uint32, want map[backend.BlockID][32]byte) {
	t.Helper()
	r, err := h.Open(t.Context(), nthID(n))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	next := serverOf(t, "other", nil, testMemory)
	if err := next.Restore(t.Context(), reading{r}); err != nil {
		t.Fatalf("checkpoint %d: %v", n, err)
	}
	if got := hashBlocks(t, next); !maps.Equal(got, want) {
		t.Errorf("checkpoint %d: %d blocks, want %d, or others", n, len(got), len(want))
	}
}

// TestUpon: random writes between checkpoints, each upon an existing checkpoint, upon no checkpoint, or upon a
// checkpoint that was lost; older checkpoints are deleted and collected. Each brings back the memory at the time when
// the checkpoint was made, bit for bit.
func TestUpon(t *testing.T) {
	const blocks, saves = 8, 12
	h := newShelf(t)
	s := serverOf(t, "test", nil, testMemory)
	_, cs := attachProcess(t, s, 1)
	c := cs[0]
	c.beginContext(ctxA, 0)
	a := c.alloc(blocks * backend.Granule)
	r := rand.New(rand.NewPCG(4, 5))
	was := map[uint32]map[backend.BlockID][32]byte{}
	ids := map[uint32]string{}
	var known uint64
	for n := uint32(1); n <= saves; n++ {
		for range r.IntN(blocks) {
			// Of few values, so that blocks get the former content of their own or of other blocks.
			at := a + r.Uint64N(blocks)*backend.Granule
			c.post("cuMemsetD32Async", at, r.Uint32N(9), uint64(backend.Granule/4), uint64(0))
			if r.IntN(2) == 0 {
				c.post("cuMemsetD8Async", at+r.Uint64N(backend.Granule), uint8(1), uint64(1), uint64(0))
			}
		}
		c.must("cuCtxSynchronize")
		on, upon := uint32(0), ""
		if there := slices.Sorted(maps.Keys(was)); len(there) > 0 && r.IntN(8) > 0 {
			on = there[len(there)-1]
			upon = ids[on]
		}
		lost := r.IntN(4) == 0
		rep := h.saveNth(s, n, on, upon, lost)
		known += rep.Known
		if ids[n] = rep.ID; !lost {
			was[n] = hashBlocks(t, s)
		}
		if err := s.Resume(); err != nil {
			t.Fatal(err)
		}
		if r.IntN(3) == 0 && on != 0 && !lost {
			if err := h.Delete(t.Context(), nthID(on)); err != nil {
				t.Fatal(err)
			}
			delete(was, on)
			for range 2 {
				if _, err := h.GC(t.Context(), store.Policy{}, nil, false); err != nil {
					t.Fatal(err)
				}
			}
		}
		if e := s.state.earlier[len(s.state.earlier)-1]; countBlocks(e) > 3*blocks {
			t.Errorf("save %d keeps %d blocks of %d", n, countBlocks(e), blocks)
		}
	}
	if known == 0 || len(was) < 3 {
		t.Fatalf("%d bytes known, %d checkpoints: nothing was tried", known, len(was))
	}
	for n, want := range was {
		h.checkRestored(t, n, want)
	}
}

// countBlocks returns how many blocks are in a save's files.
func countBlocks(e *earlierSave) (n int) {
	for _, x := range e.files {
		n += x.blocks
	}
	return n
}

// TestUponUnknown: upon a save that the server does not know, all is saved: a save of another server, or an old save of its own.
func TestUponUnknown(t *testing.T) {
	s := serverOf(t, "test", nil, testMemory)
	_, cs := attachProcess(t, s, 1)
	cs[0].beginContext(ctxA, 0)
	a := cs[0].alloc(2 * backend.Granule)
	cs[0].post("cuMemsetD8Async", a, uint8(1), uint64(backend.Granule), uint64(0))
	cs[0].must("cuCtxSynchronize")
	folder := Folder(t.TempDir())
	first := saveJob(t, s, folder, SaveOptions{})
	for _, upon := range []string{"", "never", "UPPER"} {
		if r := saveJob(t, s, folder, SaveOptions{Upon: upon}); r.Known != 0 || r.Written != backend.Granule || len(r.Kept) != 0 || r.ID == first.ID {
			t.Errorf("upon %q: %+v", upon, r)
		}
	}
	if r := saveJob(t, s, folder, SaveOptions{Upon: first.ID}); r.Known != backend.Granule || r.Written != 0 || !slices.Equal(r.Kept, []string{"blocks-1-0"}) {
		t.Errorf("upon the oldest save that the server knows: %+v", r)
	}
	for range maxEarlier {
		saveJob(t, s, folder, SaveOptions{})
	}
	if r := saveJob(t, s, folder, SaveOptions{Upon: first.ID}); r.Known != 0 {
		t.Errorf("upon a save that the server does not know any more: %+v", r)
	}
}

// TestUponKeepsLittle: blocks that change with every save are not kept with blocks that last, and blocks that last are
// written twice at most.
func TestUponKeepsLittle(t *testing.T) {
	const blocks, lasting = 10, 3
	s := serverOf(t, "test", nil, testMemory)
	_, cs := attachProcess(t, s, 1)
	c := cs[0]
	c.beginContext(ctxA, 0)
	a := c.alloc(blocks * backend.Granule)
	folder, upon := Folder(t.TempDir()), ""
	var written []uint64
	for n := range uint32(8) {
		for i := range uint32(blocks) {
			if value := i + 1; n == 0 || i >= lasting {
				c.post("cuMemsetD32Async", a+uint64(i)*backend.Granule, value+100*n, uint64(backend.Granule/4), uint64(0))
			}
		}
		c.must("cuCtxSynchronize")
		r := saveJob(t, s, folder, SaveOptions{Upon: upon})
		upon, written = r.ID, append(written, r.Written/backend.Granule)
		if err := s.Resume(); err != nil {
			t.Fatal(err)
		}
	}
	if want := []uint64{10, 7, 10, 7, 7, 7, 7, 7}; !slices.Equal(written, want) {
		t.Errorf("%d blocks were written, want %d", written, want)
	}
	if e := s.state.earlier[len(s.state.earlier)-1]; countBlocks(e) != blocks {
		t.Errorf("%d blocks are kept: %v", countBlocks(e), e.files)
	}
}
