// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/storetest"
)

// uploadStream puts a single stream into w.
func uploadStream(w *store.Writer, data []byte) error {
	s, err := w.Stream(0, "pages-1.img")
	if err == nil {
		_, err = s.Write(data)
	}
	if err == nil {
		err = s.Close()
	}
	return err
}

// TestFence: an upload that was fenced cannot commit, and can be begun anew; the upload of another checkpoint goes on.
func TestFence(t *testing.T) {
	id, data := checkpointID(1, 1), storetest.NewImage(1, 200).Bytes()
	s := openStore(t, newFolder(t), store.Options{})
	other := mustReturn(s.Create(t.Context(), store.Upload{ID: checkpointID(1, 2), Node: "n1"}))
	lead := mustReturn(s.Create(t.Context(), store.Upload{ID: id, Node: "n1"}))
	failOn(t, uploadStream(lead, data))
	failOn(t, s.Fence(t.Context(), id))
	failOn(t, s.Fence(t.Context(), id))
	if _, err := lead.Commit(t.Context(), nil); !errors.Is(err, store.ErrFenced) {
		t.Errorf("Commit after Fence: error %v, want ErrFenced", err)
	}
	failOn(t, lead.Abort(t.Context()))
	if _, err := s.Join(t.Context(), store.Upload{ID: id, Node: "n2"}, lead.Ticket()); !errors.Is(err, store.ErrFenced) {
		t.Errorf("Join after Fence: error %v, want ErrFenced", err)
	}
	mustReturn(other.Commit(t.Context(), nil))
	if list := mustReturn(s.List(t.Context(), nil)); len(list) != 1 || list[0].ID != checkpointID(1, 2) {
		t.Errorf("List = %+v, want the other checkpoint alone", list)
	}
	again := mustReturn(s.Create(t.Context(), store.Upload{ID: id, Node: "n1"}))
	failOn(t, uploadStream(again, data))
	mustReturn(again.Commit(t.Context(), nil))
}

// TestPace: Pace is called for each byte that is put, and not for bytes that the store has already; Pace can end the
// upload.
func TestPace(t *testing.T) {
	data := storetest.NewImage(1, 900).Bytes()
	s := openStore(t, newFolder(t), store.Options{})
	enough := errors.New("enough")
	for number, c := range []struct {
		data  []byte
		paced bool
		err   error
	}{
		{data, true, nil},
		{data, false, nil},
		{storetest.Noise(7, 900).Bytes(), true, enough},
	} {
		var paced atomic.Int64
		w := mustReturn(s.Create(t.Context(), store.Upload{ID: checkpointID(1, uint32(number+1)), Node: "n1", Pace: func(_ context.Context, n int) error {
			paced.Add(int64(n))
			return c.err
		}}))
		err := uploadStream(w, c.data)
		if err == nil {
			_, err = w.Commit(t.Context(), nil)
		}
		if !errors.Is(err, c.err) || (paced.Load() > 0) != c.paced {
			t.Errorf("%d: %d bytes paced, %v", number+1, paced.Load(), err)
		}
		if stored := w.Stats().Stored; err == nil && stored != paced.Load() {
			t.Errorf("%d: %d bytes paced, %d put", number+1, paced.Load(), stored)
		}
		failOn(t, w.Abort(t.Context()))
	}
}
