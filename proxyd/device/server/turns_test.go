// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"sync"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// TestTurns: processes that share a device all get on, and find their own memory.
func TestTurns(t *testing.T) {
	s := newServer(t, 1)
	var wg sync.WaitGroup
	var all []*process
	for i := range 3 {
		p, cs := attachProcess(t, s, 1)
		all = append(all, p)
		wg.Go(func() {
			c := cs[0]
			c.beginContext(ctxA, 0)
			a := c.alloc(1 << 16)
			if a != uint64(backend.DefaultBase) {
				t.Errorf("process %d: its first memory is at %#x", i, a)
			}
			for k := range 20 {
				c.post("cuMemsetD8_v2", a, uint8(10*i+k), uint64(1<<16))
				if got := c.readBytes(a, 1<<12); !bytes.Equal(got, bytes.Repeat([]byte{byte(10*i + k)}, 1<<12)) {
					t.Errorf("process %d has read bytes of another process", i)
					return
				}
			}
		})
	}
	wg.Wait()
	// A process that leaves makes room for the processes that stay.
	for _, p := range all {
		p.endProcess("the test is over")
		<-p.gone
	}
	_, cs := attachProcess(t, s, 1)
	cs[0].beginContext(ctxA, 0)
	cs[0].must("cuCtxSynchronize")
}

// TestBusyNeighbour: a process with a queue that is never empty gives way, too.
func TestBusyNeighbour(t *testing.T) {
	s := newServer(t, 1)
	_, busy := attachProcess(t, s, 1)
	_, other := attachProcess(t, s, 1)
	stop, started := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		c := busy[0]
		c.beginContext(ctxA, 0)
		a := c.alloc(8 << 20)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			c.post("cuMemsetD8_v2", a, uint8(i), uint64(8<<20))
			if i == 10 {
				close(started)
			}
		}
	})
	<-started
	c := other[0]
	c.beginContext(ctxA, 0)
	a := c.alloc(16)
	for range 3 {
		c.post("cuMemsetD8_v2", a, uint8(3), uint64(16))
		if got := c.readBytes(a, 2); got[0] != 3 {
			t.Errorf("memory is %v", got)
		}
	}
	close(stop)
	wg.Wait()
}

// TestWaitingNeighbour: a process that waits for ever does not keep the device.
func TestWaitingNeighbour(t *testing.T) {
	s := newServer(t, 1)
	_, waiting := attachProcess(t, s, 1)
	_, other := attachProcess(t, s, 1)
	c := waiting[0]
	c.beginContext(ctxA, 0)
	c.must("cuStreamCreate", uint64(streamA), uint32(1))
	c.post("cuStreamWaitValue32_v2", uint64(streamA), c.alloc(4), uint32(1), uint32(1))
	c = other[0]
	c.beginContext(ctxA, 0)
	c.must("cuMemsetD8_v2", c.alloc(16), uint8(3), uint64(16))
	c.must("cuCtxSynchronize")
}

// TestMeeting: two processes on the same device meet in collectives, which neither of them can finish alone.
func TestMeeting(t *testing.T) {
	s := newServer(t, 1)
	const rounds = 10
	meet := make(chan func(error)) // from the process that comes first in a round
	var wg sync.WaitGroup
	for i := range 2 {
		p, cs := attachProcess(t, s, 1)
		wg.Go(func() {
			c := cs[0]
			c.beginContext(ctxA, 0)
			a := c.alloc(64)
			x, r := p.Context(dispatch.Context(ctxA))
			if r != 0 {
				t.Errorf("Context(ctxA) = %v, want 0", r)
				return
			}
			for range rounds {
				c.post("cuMemsetD8_v2", a, uint8(i), uint64(64))
				err := x.Legacy.Backend.Exchange([]backend.Buffer{{Addr: backend.Addr(a), Size: 64}}, func(_ [][]byte, done func(error)) {
					go func() {
						select {
						case meet <- done:
						case theirs := <-meet:
							theirs(nil)
							done(nil)
						}
					}()
				})
				if err != nil {
					t.Error(err)
				}
			}
			c.must("cuCtxSynchronize")
		})
	}
	wg.Wait()
}
