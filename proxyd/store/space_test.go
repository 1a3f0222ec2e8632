// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/storetest"
)

func TestReserve(t *testing.T) {
	be := storetest.NewMem()
	be.SetFree(100 << 30)
	s := openStore(t, be, store.Options{})
	ctx := t.Context()
	first := mustReturn(s.Reserve(ctx, "mini/1/1", 59<<30))
	_, err := s.Reserve(ctx, "mini/2/1", 67<<30)
	var short *store.SpaceError
	if !errors.As(err, &short) || short.Error() != "41 GiB free, 67 GiB needed" {
		t.Fatalf("Reserve: error %v, want a SpaceError of 41 and 67 GiB", err)
	}
	second := mustReturn(s.Reserve(ctx, "mini/2/1", 41<<30))
	failOn(t, first.Release(ctx))
	failOn(t, first.Release(ctx))
	third := mustReturn(s.Reserve(ctx, "mini/3/1", 59<<30))
	failOn(t, errors.Join(second.Release(ctx), third.Release(ctx)))
}

// TestReservationsNeverOverlap: of many at once, the granted reservations fit.
func TestReservationsNeverOverlap(t *testing.T) {
	be := storetest.NewMem()
	be.SetFree(10)
	s := openStore(t, be, store.Options{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	granted := 0
	for range 20 {
		wg.Go(func() {
			if _, err := s.Reserve(t.Context(), "x", 4); err == nil {
				mu.Lock()
				granted++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if granted > 2 {
		t.Errorf("%d reservations of 4 in 10", granted)
	}
}

func TestDeadReservationLapses(t *testing.T) {
	be := storetest.NewMem()
	be.SetFree(10)
	now := time.Now()
	clock := func() time.Time { return now }
	dead := openStore(t, storetest.NewFault(be, 0, storetest.Before), store.Options{Beat: time.Hour})
	mustReturn(dead.Reserve(t.Context(), "x", 8))
	s := openStore(t, be, store.Options{Now: clock, Lapse: time.Minute})
	if _, err := s.Reserve(t.Context(), "y", 8); err == nil {
		t.Fatal("granted twice")
	}
	now = now.Add(2 * time.Minute)
	mustReturn(s.Reserve(t.Context(), "y", 8))
}
