// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
)

// TestPeerOrder: cuMemcpyPeer is in order with the work of both devices.
func TestPeerOrder(t *testing.T) {
	_, cs := attachProcess(t, newServer(t, 2), 1)
	c := cs[0]
	c.beginContext(ctxB, 1)
	flag, b := c.alloc(4), c.alloc(4)
	c.must("cuStreamCreate", uint64(streamB), uint32(1))
	c.beginContext(ctxA, 0)
	a := c.alloc(4)
	c.context = ctxB
	c.post("cuStreamWaitValue32_v2", uint64(0), flag, uint32(1), uint32(1))
	c.post("cuMemsetD8_v2", b, uint8('b'), uint64(4))
	c.context = ctxA
	c.post("cuMemcpyPeer", a, uint64(ctxA), b, uint64(ctxB), uint64(4))
	c.context = ctxB
	c.post("cuMemsetD8_v2", b, uint8('c'), uint64(4))
	c.post("cuStreamWriteValue32_v2", uint64(streamB), flag, uint32(1), uint32(0))
	c.context = ctxA
	if got := c.readBytes(a, 4); string(got) != "bbbb" {
		t.Errorf("memory is %q", got)
	}
}

// TestThreads: each thread has a default stream of its own, and the streams of threads that are gone go.
func TestThreads(t *testing.T) {
	p, cs := attachProcess(t, newServer(t, 1), 1)
	c := cs[0]
	c.beginContext(ctxA, 0)
	x, _ := p.Context(dispatch.Context(ctxA))
	a := c.alloc(4)
	ids := map[string]bool{}
	const id = "cuStreamGetId"
	for thread := range uint32(3 * driver.SweepAt) {
		c.thread = thread + 1
		ids[string(c.must(id, uint64(driver.PerThreadStream)))] = true
		op, b := c.encodeMessage("cuMemsetD8_v2", []any{a, uint8(1), uint64(4)})
		c.sendMessage(op|dispatch.PerThread, false, b, 0)
	}
	if len(ids) != 3*driver.SweepAt {
		t.Errorf("%d streams of %d threads", len(ids), 3*driver.SweepAt)
	}
	c.must("cuCtxSynchronize")
	for thread := range uint32(3 * driver.SweepAt) {
		c.thread = thread + 1000
		c.must(id, uint64(driver.PerThreadStream))
	}
	if n := x.ThreadCount(); n >= 6*driver.SweepAt {
		t.Errorf("%d threads have default streams", n)
	}
	c.must(id, uint64(driver.LegacyStream))
	c.must("cuCtxDestroy_v2", uint64(ctxA))
}
