// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/binary"
	"runtime"
	"testing"
)

// nextFunction asks which function to call.
func (c *client) nextFunction() (ticket uint64, status int32, last uint32) {
	c.t.Helper()
	b := c.must("host_func_next")
	return binary.LittleEndian.Uint64(b), int32(binary.LittleEndian.Uint32(b[8:])), binary.LittleEndian.Uint32(b[12:])
}

// TestHostFunctions: a stream goes on when the program has called the function that the stream waits for.
// Other streams go on meanwhile.
func TestHostFunctions(t *testing.T) {
	_, cs := attachProcess(t, newServer(t, 1), 2)
	c, thread := cs[0], cs[1]
	c.beginContext(ctxA, 0)
	c.must("cuStreamCreate", uint64(streamA), uint32(1))
	c.must("cuStreamCreate", uint64(streamB), uint32(1))
	a := c.alloc(16)
	c.post("host_func", uint64(streamA), uint64(41))
	c.post("cuMemsetD8Async", a, uint8(1), uint64(8), uint64(streamA))
	c.post("host_func", uint64(streamA), uint64(42))
	c.post("cuMemsetD8Async", a+8, uint8(2), uint64(8), uint64(streamB))
	c.must("cuStreamSynchronize", uint64(streamB))
	c.want(notReady, "cuStreamQuery", uint64(streamA))
	if got := c.must("copy_out", a, uint64(16), uint64(streamB))[8:]; string(got) != "\x00\x00\x00\x00\x00\x00\x00\x00\x02\x02\x02\x02\x02\x02\x02\x02" {
		t.Errorf("before the function: %x", got)
	}
	for _, want := range []uint64{41, 42} {
		if ticket, status, last := thread.nextFunction(); ticket != want || status != 0 || last != 1 {
			t.Errorf("ticket %d, status %d, last %d; want %d", ticket, status, last, want)
		}
		thread.post("host_func_done", want)
	}
	c.must("cuStreamSynchronize", uint64(streamA))
	if got := c.readBytes(a, 1); got[0] != 1 {
		t.Errorf("after the function: %x", got)
	}
	c.want(invalidHandle, "host_func", uint64(0x2ffff), uint64(43))
	c.post("host_func_next") // posted: no answer could carry the function
	c.want(invalidValue, "host_func_done", uint64(42))
}

// TestHostFunctionsEnd: neither a stream nor the thread waits for a program that is gone.
func TestHostFunctionsEnd(t *testing.T) {
	s := newServer(t, 1)
	p, cs := attachProcess(t, s, 2)
	c := cs[0]
	c.beginContext(ctxA, 0)
	c.post("host_func", uint64(0), uint64(1))
	c.post("host_func", uint64(0), uint64(2))
	cs[1].nextFunction()
	ended := make(chan int32)
	go func() {
		r, _ := cs[1].call("host_func_next")
		ended <- r
	}()
	for waits := false; !waits; runtime.Gosched() {
		waits = p.graphs.HostFunctions.IsAsked()
	}
	p.endProcess("the test says so")
	if r := <-ended; r == 0 {
		t.Error("a function is to be called after the process has ended")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
