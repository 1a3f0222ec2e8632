// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// TestPlacedWhileRunning: a job that is put on other devices of the machine all the time, in any order, comes to the
// same bytes as a job that is left alone; and devices that the job has left hold no memory of the job.
func TestPlacedWhileRunning(t *testing.T) {
	seeds := uint64(3)
	if testing.Short() {
		seeds = 1
	}
	const room = 3 * backend.Granule
	for seed := range seeds {
		calm := newTroupe(t, serverOf(t, "test", nil, room, room, room, room), seed).playSteps(80)
		playPlaced(t, serverOf(t, "test", []int{0, 0, 0, 0}, room, room, room, room), seed, 4, calm)
	}
}

// playPlaced has a troupe play while its job is put on other devices all the time, and compares the bytes.
func playPlaced(t *testing.T, s *Server, seed uint64, devices int, want []byte) {
	t.Helper()
	w := newTroupe(t, s, seed)
	over, placed := make(chan struct{}), make(chan int)
	go func() {
		r, n := rand.New(rand.NewPCG(seed, 11)), 0
		defer func() { placed <- n }()
		for ; ; n++ {
			order := make([]int, 4)
			for i := range order {
				order[i] = r.IntN(devices)
			}
			if err := s.Place(t.Context(), order); err != nil {
				t.Error(err)
				return
			}
			checkPlaced(t, s, order)
			select {
			case <-over:
				return
			default:
			}
		}
	}()
	got := w.playSteps(80)
	close(over)
	n := <-placed
	t.Logf("seed %d: placed %d times", seed, n)
	if !bytes.Equal(got, want) || len(bytes.Trim(got, "\x00")) == 0 || n == 0 {
		t.Errorf("seed %d: other bytes than without, after %d places", seed, n)
	}
}

// checkPlaced checks that the devices are where they were put, and no space is elsewhere.
func checkPlaced(t *testing.T, s *Server, order []int) {
	t.Helper()
	st := s.Status()
	for i, d := range st.Devices {
		if d.On != order[i] {
			t.Errorf("device %d is on %d, and was put on %d", i, d.On, order[i])
		}
	}
	for i, at := range st.Sharing {
		if !slices.Contains(order, i) && (at.Spaces != 0 || at.Devices != 0) {
			t.Errorf("placed %v: %d spaces and %d devices are left on device %d", order, at.Spaces, at.Devices, i)
		}
	}
}

// TestPlaceRefused: an impossible order has no effect.
func TestPlaceRefused(t *testing.T) {
	s := serverOf(t, "test", []int{1, 0}, testMemory, testMemory, testMemory/2)
	_, cs := attachProcess(t, s, 1)
	cs[0].beginContext(ctxA, 0)
	for _, order := range [][]int{nil, {0}, {0, 1, 0}, {0, -1}, {0, 3}, {2, 0}} {
		if err := s.Place(t.Context(), order); !errors.Is(err, ErrNotPlaced) {
			t.Errorf("placed on %v: %v", order, err)
		}
		checkPlaced(t, s, []int{1, 0})
	}
	cs[0].must("cuCtxSynchronize")
}

// spinning has a kernel that sets a word, and ends when the word before is not zero.
const spinning = `.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 p)
{
	.reg .u64 %p; .reg .u32 %x; .reg .pred %q;
	ld.param.u64 %p, [p];
	st.volatile.global.u32 [%p+4], 1;
again:
	ld.volatile.global.u32 %x, [%p]; setp.eq.u32 %q, %x, 0;
	@%q bra again;
	ret;
}
`

// TestPlaceEnded: a kernel that cannot be interrupted keeps its space in place. When the time is over all goes on, and
// the same order can be given again.
func TestPlaceEnded(t *testing.T) {
	s := serverOf(t, "test", []int{0}, testMemory, testMemory)
	_, cs := attachProcess(t, s, 1)
	c := cs[0]
	c.beginContext(ctxA, 0)
	c.must("cuStreamCreate", uint64(streamA), uint32(1))
	c.must("cuStreamCreate", uint64(streamB), uint32(1))
	a := c.alloc(64)
	spin := u64(c.must("cuModuleGetFunction", c.loadModule(spinning), "spin"))
	c.launchShape(spin, [7]uint32{1, 1, 1, 1, 1, 1, 0}, streamA, binary.LittleEndian.AppendUint64(nil, a))
	for begun := make([]byte, 4); begun[0] == 0; { // before its block runs, the kernel can be interrupted
		c.must("cuMemcpyDtoHAsync_v2", uint64(uintptr(unsafe.Pointer(&begun[0]))), a+4, uint64(4), uint64(streamB))
		c.must("cuStreamSynchronize", uint64(streamB))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.Place(ctx, []int{1}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("placed under a kernel that does not end: %v", err)
	}
	c.post("cuMemsetD32Async", a, uint32(1), uint64(1), uint64(streamB))
	c.must("cuStreamSynchronize", uint64(streamA))
	if err := s.Place(t.Context(), []int{1}); err != nil {
		t.Error(err)
	}
	checkPlaced(t, s, []int{1})
	if got := c.readBytes(a, 1); got[0] != 1 {
		t.Errorf("memory is %v", got)
	}
}

// TestPlacedWork: a program that queues kernels, copies and graphs, and does not wait, is put on another device at random
// moments, and has the bytes of a program that is left alone.
func TestPlacedWork(t *testing.T) {
	w := newTwin(t)
	w.r = rand.New(rand.NewPCG(3, 5))
	streams, mix, m, exec := w.beginQueueing()
	for round := range 40 {
		for range 12 {
			w.queueSomething(mix, m, exec, streams)
			w.orderStreams(streams)
		}
		if err := w.s.Place(t.Context(), [][]int{{1, 0}, {0, 0}, {1, 1}, {0, 1}}[round%4]); err != nil {
			t.Fatal(err)
		}
		if round%8 == 7 {
			w.sameBytes(m)
		}
	}
}
