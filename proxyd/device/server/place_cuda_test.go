// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package server

import (
	"errors"
	"reflect"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// TestPlacedOnReal: as TestPlacedWhileRunning, over a fake driver with two devices.
func TestPlacedOnReal(t *testing.T) {
	const room = 3 * backend.Granule
	calm := newTroupe(t, serverOf(t, "test", nil, room, room, room, room), 1).playSteps(80)
	server, _ := realServer(t)
	playPlaced(t, server([]int{0, 0, 0, 0}, false), 1, 2, calm)
}

// TestPlaceTeam: devices in a communicator of NCCL stay where they are, for the communicator does. The job goes on there.
func TestPlaceTeam(t *testing.T) {
	soft, at := makeMembers(t, newServer(t, 2))
	want := runEverything(soft, at)
	server, _ := realServer(t)
	s := server(nil, false)
	all, at := makeMembers(t, s)
	for _, order := range [][]int{{1, 0}, {0, 0}, {1, 1}} {
		if err := s.Place(t.Context(), order); !errors.Is(err, ErrNotPlaced) || backend.ResultOf(err) != backend.NotSupported {
			t.Errorf("placed on %v: %v", order, err)
		}
		checkPlaced(t, s, []int{0, 1})
	}
	if got := runEverything(all, at); !reflect.DeepEqual(got, want) {
		t.Errorf("by the team: %v\nwant %v", got, want)
	}
	for _, r := range all {
		r.must("ncclCommDestroy", uint64(commA))
	}
}

// TestPlaceUndone: if the backend does not move a space, the spaces that have moved already move back.
func TestPlaceUndone(t *testing.T) {
	server, _ := realServer(t)
	s := server(nil, false)
	l, err := fakes()
	if err != nil {
		t.Fatal(err)
	}
	_, cs := attachProcess(t, s, 1)
	c := cs[0]
	c.beginContext(ctxA, 0)
	a := c.alloc(64)
	c.writeInts(a, 5)
	c.beginContext(ctxB, 1)
	c.must("cuCtxSynchronize")
	l.Fail("cuCtxCreate_v2", 3, int(backend.OutOfMemory)) // the rehearsal of the second space
	if err := s.Place(t.Context(), []int{1, 0}); !errors.Is(err, ErrNotPlaced) || backend.ResultOf(err) != backend.OutOfMemory {
		t.Errorf("Place = %v", err)
	}
	checkPlaced(t, s, []int{0, 1})
	c.context = ctxA
	if got := c.readInts(a, 1); got[0] != 5 {
		t.Errorf("memory is %v, want 5", got)
	}
	if err := s.Place(t.Context(), []int{1, 0}); err != nil {
		t.Error(err)
	}
	checkPlaced(t, s, []int{1, 0})
}
