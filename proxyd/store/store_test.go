// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/posix"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/storetest"
)

var testKey = mustReturn(store.NewKey(bytes.Repeat([]byte("key "), 8)))

func mustReturn[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func failOn(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openStore(t testing.TB, be store.Backend, opt store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(context.Background(), be, testKey, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func newFolder(t testing.TB) *posix.Backend {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	b, err := posix.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func checkpointID(job, number uint32) store.ID {
	return store.ID{JobID: store.JobID{Cluster: "mini", Job: job, ArrayTask: store.None, Component: store.None}, Number: number}
}

// dumpRanks commits a checkpoint of a node with a stream of these bytes for each rank.
func dumpRanks(ctx context.Context, s *store.Store, id store.ID, ranks ...[]byte) error {
	w, err := s.Create(ctx, store.Upload{ID: id, Node: "n1"})
	if err != nil {
		return err
	}
	err = writeRanks(w, ranks)
	if err == nil {
		_, err = w.Commit(ctx, []byte("meta"))
	}
	return errors.Join(err, w.Abort(ctx))
}

func writeRanks(w *store.Writer, ranks [][]byte) error {
	var wg sync.WaitGroup
	errs := make([]error, len(ranks))
	for i, data := range ranks {
		wg.Go(func() {
			st, err := w.Stream(i, "pages-1.img")
			if err == nil {
				_, err = st.Write(data)
			}
			if err == nil {
				err = st.Close()
			}
			errs[i] = err
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// readBack returns the bytes of a rank's stream.
func readBack(ctx context.Context, s *store.Store, id store.ID, rank int) ([]byte, error) {
	r, err := s.Open(ctx, id)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	st, err := r.Stream(store.StreamID{Node: "n1", Rank: rank, Name: "pages-1.img"})
	if err != nil {
		return nil, err
	}
	defer st.Close()
	var b bytes.Buffer
	_, err = st.WriteTo(&b)
	return b.Bytes(), err
}

func TestRoundTrip(t *testing.T) {
	image := storetest.NewImage(1, 3000).Bytes()
	cases := []struct {
		name string
		data []byte
	}{
		{"empty", nil},
		{"one byte", []byte("x")},
		{"one zero", make([]byte, 1)},
		{"a page", image[:4096]},
		{"a page less one", image[:4095]},
		{"a page and one", image[:4097]},
		{"zeros", make([]byte, 3<<20)},
		{"zeros and one", append(make([]byte, 3<<20), 1)},
		{"one and zeros", append([]byte{1}, make([]byte, 3<<20)...)},
		{"short text", []byte("short text\n")},
		{"image", image},
		{"image, odd end", image[:len(image)-1234]},
		{"repetition", bytes.Repeat(image[4096*20:4096*21], 2000)},
		{"noise", storetest.Noise(1, 1500).Bytes()},
	}
	for _, be := range []struct {
		name string
		open func() store.Backend
	}{
		{"mem", func() store.Backend { return storetest.NewMem() }},
		{"posix", func() store.Backend { return newFolder(t) }},
	} {
		s := openStore(t, be.open(), store.Options{})
		for i, c := range cases {
			t.Run(be.name+"/"+c.name, func(t *testing.T) {
				id := checkpointID(1, uint32(i))
				failOn(t, dumpRanks(t.Context(), s, id, c.data))
				got, err := readBack(t.Context(), s, id, 0)
				if err != nil || !bytes.Equal(got, c.data) {
					t.Fatalf("%d bytes, %v; want %d", len(got), err, len(c.data))
				}
			})
		}
	}
}

// TestReadPieces reads and writes in odd pieces.
func TestReadPieces(t *testing.T) {
	s := openStore(t, storetest.NewMem(), store.Options{})
	data := storetest.NewImage(2, 2000).Bytes()[:7_000_001]
	w := mustReturn(s.Create(t.Context(), store.Upload{ID: checkpointID(1, 1), Node: "n1"}))
	st := mustReturn(w.Stream(store.None, "odd"))
	r := rand.New(rand.NewPCG(1, 1))
	for left := data; len(left) > 0; {
		n := min(len(left), r.IntN(20_000))
		mustReturn(st.Write(left[:n]))
		left = left[n:]
	}
	failOn(t, st.Close())
	mustReturn(w.Commit(t.Context(), nil))
	rd := mustReturn(s.Open(t.Context(), checkpointID(1, 1)))
	defer rd.Close()
	id := store.StreamID{Node: "n1", Rank: store.None, Name: "odd"}
	for range 3 { // several at once
		sr := mustReturn(rd.Stream(id))
		defer sr.Close()
		if got, err := io.ReadAll(iotest.OneByteReader(io.LimitReader(sr, 100_000))); err != nil || !bytes.Equal(got, data[:100_000]) {
			t.Fatalf("read %d bytes: %v", len(got), err)
		}
		if got, err := io.ReadAll(sr); err != nil || !bytes.Equal(got, data[100_000:]) {
			t.Fatalf("read %d bytes: %v", len(got), err)
		}
	}
}

// TestBigRecipe makes a recipe of several pieces, and many streams in no order.
func TestBigRecipe(t *testing.T) {
	be := storetest.NewMem()
	s := openStore(t, be, store.Options{})
	data := storetest.NewImage(3, 15_000).Bytes()
	w := mustReturn(s.Create(t.Context(), store.Upload{ID: checkpointID(1, 1), Node: "n1"}))
	for i := range 300 {
		st := mustReturn(w.Stream(i%4, fmt.Sprintf("fds/%d.img", 300-i)))
		mustReturn(st.Write(data[i*5000 : i*5000+i*20]))
		failOn(t, st.Close())
	}
	st := mustReturn(w.Stream(0, "pages-1.img"))
	mustReturn(st.Write(data))
	failOn(t, st.Close())
	mustReturn(w.Commit(t.Context(), nil))
	m := mustReturn(s.Open(t.Context(), checkpointID(1, 1)))
	defer m.Close()
	if info := m.Manifest().Stream(st0("pages-1.img")); len(info.Pieces) < 2 {
		t.Fatalf("recipe of %d pieces, want several", len(info.Pieces))
	}
	got, err := readBack(t.Context(), s, checkpointID(1, 1), 0)
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("the stream reads back as %d bytes, %v, or with other content", len(got), err)
	}
	report, err := s.Verify(t.Context(), nil, nil)
	if err != nil || len(report.Problems) > 0 || report.Checkpoints != 1 {
		t.Fatalf("Verify = %+v, %v, want 1 checkpoint without problems", report, err)
	}
}

func st0(name string) store.StreamID { return store.StreamID{Node: "n1", Rank: 0, Name: name} }

// TestManyOpenStreams: more streams are begun than there are buffers, by a single goroutine.
func TestManyOpenStreams(t *testing.T) {
	s := openStore(t, storetest.NewMem(), store.Options{Lanes: 2})
	data := storetest.NewImage(4, 40).Bytes()
	w := mustReturn(s.Create(t.Context(), store.Upload{ID: checkpointID(1, 1), Node: "n1"}))
	var open []*store.Stream
	for i := range 12 {
		open = append(open, mustReturn(w.Stream(i, "pages-1.img")))
	}
	for _, half := range [][]byte{data[:50_000], data[50_000:]} {
		for _, st := range open {
			mustReturn(st.Write(half))
		}
	}
	for _, st := range open {
		failOn(t, st.Close())
	}
	mustReturn(w.Commit(t.Context(), nil))
	for i := range open {
		if got, err := readBack(t.Context(), s, checkpointID(1, 1), i); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("rank %d: %d bytes, %v", i, len(got), err)
		}
	}
}

func TestNodesCommitTogether(t *testing.T) {
	s := openStore(t, storetest.NewMem(), store.Options{})
	data := storetest.NewImage(5, 500).Bytes()
	leader := mustReturn(s.Create(t.Context(), store.Upload{ID: checkpointID(7, 1), Node: "n1"}))
	var parts []store.NodeStreams
	for _, node := range []string{"n2", "n3"} {
		w := mustReturn(s.Join(t.Context(), store.Upload{ID: checkpointID(7, 1), Node: node}, leader.Ticket()))
		failOn(t, writeRanks(w, [][]byte{data, data}))
		parts = append(parts, mustReturn(w.Finish(t.Context())))
		failOn(t, w.Abort(t.Context()))
		if _, err := w.Commit(t.Context(), nil); err == nil {
			t.Fatal("a node that is not the leader committed")
		}
	}
	failOn(t, writeRanks(leader, [][]byte{data}))
	mustReturn(leader.Commit(t.Context(), []byte("m"), parts...))
	r := mustReturn(s.Open(t.Context(), checkpointID(7, 1)))
	defer r.Close()
	if got := r.Manifest().Nodes(); !slices.Equal(got, []string{"n1", "n2", "n3"}) {
		t.Errorf("Nodes = %q, want n1, n2, n3", got)
	}
	if st := r.Manifest().Stats; st.Logical != int64(5*len(data)) || st.New*3 > st.Logical || string(r.Manifest().Meta) != "m" {
		t.Errorf("stats of the manifest = %+v", st)
	}
	_, err := s.Join(t.Context(), store.Upload{ID: checkpointID(7, 1), Node: "n4"}, leader.Ticket())
	if !errors.Is(err, store.ErrFenced) {
		t.Errorf("join after the commit: %v", err)
	}
}

func TestWriterEnds(t *testing.T) {
	be := storetest.NewMem()
	s := openStore(t, be, store.Options{})
	ctx := t.Context()
	w := mustReturn(s.Create(ctx, store.Upload{ID: checkpointID(1, 1), Node: "n1"}))
	st := mustReturn(w.Stream(0, "a"))
	if _, err := w.Stream(0, "a"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a name twice: %v", err)
	}
	if _, err := w.Commit(ctx, nil); err == nil {
		t.Error("committed with an open stream")
	}
	failOn(t, st.Close())
	failOn(t, st.Close())
	if _, err := st.Write([]byte("x")); !errors.Is(err, store.ErrClosed) {
		t.Errorf("write after close: %v", err)
	}
	mustReturn(w.Commit(ctx, nil))
	if _, err := w.Stream(0, "b"); !errors.Is(err, store.ErrClosed) {
		t.Errorf("stream after commit: %v", err)
	}
	failOn(t, w.Abort(ctx))
	if _, err := s.Create(ctx, store.Upload{ID: checkpointID(1, 1), Node: "n1"}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("the same checkpoint again: %v", err)
	}
	aborted := mustReturn(s.Create(ctx, store.Upload{ID: checkpointID(1, 2), Node: "n1"}))
	st = mustReturn(aborted.Stream(0, "a"))
	failOn(t, aborted.Abort(ctx))
	failOn(t, aborted.Abort(ctx))
	if _, err := st.Write(bytes.Repeat([]byte("x"), 1<<20)); !errors.Is(err, store.ErrAborted) {
		t.Errorf("write after abort: %v", err)
	}
	if n := len(be.Files("leases/")); n != 0 {
		t.Errorf("%d files in leases/", n)
	}
	if list := mustReturn(s.List(ctx, nil)); len(list) != 1 {
		t.Errorf("List = %v, want 1 checkpoint", list)
	}
}

func TestCancelledContextFailsTheWriter(t *testing.T) {
	s := openStore(t, storetest.NewMem(), store.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	w := mustReturn(s.Create(ctx, store.Upload{ID: checkpointID(1, 1), Node: "n1"}))
	st := mustReturn(w.Stream(0, "a"))
	cancel()
	data := storetest.NewImage(8, 5000).Bytes()
	if _, err := st.Write(data); !errors.Is(err, context.Canceled) {
		t.Errorf("Write after the cancel: error %v", err)
	}
	if err := st.Close(); !errors.Is(err, context.Canceled) {
		t.Errorf("Close after the cancel: error %v", err)
	}
	if _, err := w.Commit(t.Context(), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Commit after the cancel: error %v", err)
	}
	failOn(t, w.Abort(ctx))
}
