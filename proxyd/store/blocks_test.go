// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/storetest"
)

// readStream returns all bytes of rank n's stream.
func readStream(t *testing.T, s *store.Store, id store.ID, n int) []byte {
	t.Helper()
	r, err := s.Open(t.Context(), id)
	failOn(t, err)
	defer r.Close()
	in, err := r.Stream(store.StreamID{Node: "n1", Rank: n, Name: "pages-1.img"})
	failOn(t, err)
	var b bytes.Buffer
	_, err = in.WriteTo(&b)
	failOn(t, errors.Join(err, in.Close()))
	return b.Bytes()
}

// TestBlocks: the same blocks in another order, in another stream, are all found in the store.
func TestBlocks(t *testing.T) {
	const length, many = 256 << 10, 40
	s := openStore(t, storetest.NewMem(), store.Options{})
	r := rand.New(rand.NewPCG(1, 2))
	all := make([][]byte, many)
	for i := range all {
		all[i] = storetest.Noise(uint64(i), length/4096).Bytes()
		clear(all[i][r.IntN(length):]) // of many lengths, for the store
	}
	for n := range uint32(2) {
		w := mustReturn(s.Create(t.Context(), store.Upload{ID: checkpointID(1, n+1), Node: "n1"}))
		to := mustReturn(w.Blocks(0, "pages-1.img", length))
		for _, b := range all {
			mustReturn(to.Write(b))
		}
		failOn(t, to.Close())
		mustReturn(w.Commit(t.Context(), nil))
		if !bytes.Equal(readStream(t, s, checkpointID(1, n+1), 0), slices.Concat(all...)) {
			t.Errorf("stream of checkpoint %d reads back with other bytes", n)
		}
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:many/2] // a stream's length does not matter
	}
	if st := mustReturn(s.List(t.Context(), nil))[1].Stats; st.New != 0 || st.Dedup == 0 {
		t.Errorf("stats of the second checkpoint = %+v, want all bytes found", st)
	}
}
