// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/storetest"
)

// TestDedup checks the store's promises about repeated data.
func TestDedup(t *testing.T) {
	const pages = 20_000 // 80 MiB
	im := storetest.NewImage(6, pages)
	first := im.Bytes()
	cases := []struct {
		name  string
		image []byte
		most  float64 // as a part of the bytes that the first checkpoint stored
	}{
		{"the same", first, 0.002},
		{"idle, 10 pages touched", im.Touch(1, 10).Bytes(), 0.02},
		{"10 pages inserted", im.Insert(1, 10).Bytes(), 0.03},
		{"10 pages dropped", im.Drop(1, 10).Bytes(), 0.03},
		{"all of these", im.Touch(2, 5).Insert(2, 5).Drop(2, 5).Bytes(), 0.03},
		{"a page before everything", append(bytes.Repeat([]byte("x"), 4096), first...), 0.01},
		{"zero pages before everything", append(make([]byte, 5*4096), first...), 0.002},
	}
	s := openStore(t, storetest.NewMem(), store.Options{})
	failOn(t, dumpRanks(t.Context(), s, checkpointID(1, 0), first))
	base := readStats(t, s, checkpointID(1, 0))
	t.Logf("first: %d MiB, stored %d MiB in %d chunks", base.Logical>>20, base.Stored>>20, base.NewChunks)
	if testing.Short() {
		cases = slices.Delete(cases, 2, 4) // "all of these" has both
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			id := checkpointID(1, uint32(i+1))
			failOn(t, dumpRanks(t.Context(), s, id, c.image))
			st := readStats(t, s, id)
			got := float64(st.Stored) / float64(base.Stored)
			t.Logf("stored %.3f %%, %d of %d chunks new", 100*got, st.NewChunks, st.Chunks)
			if got > c.most {
				t.Errorf("stored %.2f %% of the first, want at most %.2f %%", 100*got, 100*c.most)
			}
			if back, err := readBack(t.Context(), s, id, 0); err != nil || !bytes.Equal(back, c.image) {
				t.Errorf("read back: %v", err)
			}
		})
	}
}

func readStats(t testing.TB, s *store.Store, id store.ID) store.Stats {
	t.Helper()
	r, err := s.Open(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	return r.Manifest().Stats
}

// TestFourEqualRanks: four equal ranks are dumped at the same time, into different Writers.
func TestFourEqualRanks(t *testing.T) {
	data := storetest.NewImage(7, 10_000).Bytes()
	stored := func(be *storetest.Mem) (n int64) {
		for _, f := range be.Files("chunks/") {
			n += int64(len(f))
		}
		return n
	}
	one, four := storetest.NewMem(), storetest.NewMem()
	failOn(t, dumpRanks(t.Context(), openStore(t, one, store.Options{}), checkpointID(1, 1), data))
	s := openStore(t, four, store.Options{})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			if err := dumpRanks(context.Background(), s, checkpointID(uint32(i+1), 1), data); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if ratio := float64(stored(four)) / float64(stored(one)); ratio > 1.1 {
		t.Errorf("four ranks take %.2f times the room of one", ratio)
	}
}

// TestZerosCostNothing: a terabyte of zeros would take very long if they were hashed.
func TestZerosCostNothing(t *testing.T) {
	be := storetest.NewMem()
	s := openStore(t, be, store.Options{})
	failOn(t, dumpRanks(t.Context(), s, checkpointID(1, 1), make([]byte, 512<<20)))
	if n := len(be.Files("chunks/")); n != 0 {
		t.Errorf("the store has %d chunks, want 0", n)
	}
	if st := readStats(t, s, checkpointID(1, 1)); st.Zero != 512<<20 || st.Stored != 0 {
		t.Errorf("stats = %+v, want only zeros", st)
	}
}

// TestOldStore: a checkpoint that was written when zstd was the codec is read, verified and copied, and a new
// checkpoint of the same bytes uses its chunks.
func TestOldStore(t *testing.T) {
	be := storetest.NewMem()
	s := openStore(t, be, store.Options{})
	im := storetest.NewImage(6, 800)
	data := im.Bytes()
	failOn(t, dumpRanks(t.Context(), s, checkpointID(1, 1), data))
	old := be.Files("chunks/")
	enc := mustReturn(zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1)))
	aged := 0
	for name, file := range old {
		if file[4] == 2 {
			old[name] = asZstd(enc, file)
			be.Overwrite(name, old[name])
			aged++
		}
	}
	if aged == 0 {
		t.Fatal("no chunk is compressed")
	}
	if got, err := readBack(t.Context(), s, checkpointID(1, 1), 0); err != nil || !bytes.Equal(got, data) {
		t.Errorf("read back: %v", err)
	}
	failOn(t, dumpRanks(t.Context(), s, checkpointID(1, 2), data))
	if st := readStats(t, s, checkpointID(1, 2)); st.New != 0 || st.NewChunks != 0 {
		t.Errorf("the same bytes were stored anew: %+v", st)
	}
	touched := im.Touch(1, 10).Bytes()
	failOn(t, dumpRanks(t.Context(), s, checkpointID(1, 3), touched))
	if got, err := readBack(t.Context(), s, checkpointID(1, 3), 0); err != nil || !bytes.Equal(got, touched) {
		t.Errorf("read back a mixture: %v", err)
	}
	if r := mustReturn(s.Verify(t.Context(), nil, nil)); r.Checkpoints != 3 || len(r.Problems) != 0 {
		t.Errorf("report of Verify = %+v, want 3 checkpoints without problems", r)
	}
	for name, file := range be.Files("chunks/") {
		if was, ok := old[name]; ok && !bytes.Equal(file, was) {
			t.Errorf("%s was written again", name)
		}
	}
}

// asZstd returns an S2 chunk's file in the form of releases before S2.
func asZstd(enc *zstd.Encoder, file []byte) []byte {
	payload := enc.EncodeAll(mustReturn(s2.Decode(nil, file[16:])), nil)
	head := append([]byte("SSC1\x01\x00\x00\x00"), file[8:12]...)
	return append(binary.LittleEndian.AppendUint32(head, uint32(len(payload))), payload...)
}

// TestEachChunk: the chunks of a stream make up its data, and equal streams are made of the same chunks.
func TestEachChunk(t *testing.T) {
	s := openStore(t, storetest.NewMem(), store.Options{})
	image := storetest.NewImage(6, 2000).Bytes()
	other := bytes.Clone(image)
	copy(other[5*4096:], "another page")
	failOn(t, dumpRanks(t.Context(), s, checkpointID(1, 0), image, image, other))
	r, err := s.Open(t.Context(), checkpointID(1, 0))
	failOn(t, err)
	defer r.Close()
	var of [3]map[store.Hash]int
	for rank := range of {
		id := store.StreamID{Node: "n1", Rank: rank, Name: "pages-1.img"}
		var sum int64
		of[rank] = map[store.Hash]int{}
		failOn(t, r.EachChunk(id, func(h store.Hash, bytes int) {
			of[rank][h] = bytes
			sum += int64(bytes)
		}))
		if want := r.Manifest().Stream(id).Data; sum != want {
			t.Errorf("rank %d: its chunks have %d bytes, its data are %d", rank, sum, want)
		}
	}
	if !maps.Equal(of[0], of[1]) {
		t.Error("equal streams are made of different chunks")
	}
	own := 0
	for h := range of[2] {
		if of[0][h] == 0 {
			own++
		}
	}
	if own == 0 || own > 3 {
		t.Errorf("a stream of which a page differs has %d chunks of its own", own)
	}
	if err := r.EachChunk(store.StreamID{Node: "n1", Name: "none"}, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a stream that is not there: %v", err)
	}
}
