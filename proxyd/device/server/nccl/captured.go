// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"slices"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// collectiveRecorder is a stream that records its work as nodes of a graph.
type collectiveRecorder interface {
	// RecordCollective makes a node. Before a launch of a graph with it is queued, launch is to be called, once for
	// each time that the node will run, for nodes in the order in which they were made: that is the order in which the
	// rank issues its collectives. The function that launch returns is to be called in the stream's order after the
	// launch, also after a failed launch.
	RecordCollective(n backend.ExchangeNode, launch func() (after func())) error
}

// findRecorder finds where a group is recorded, if anywhere.
func (g *Group) findRecorder() (collectiveRecorder, bool) {
	for _, v := range g.turns {
		if rec, is := v.st.Backend.(collectiveRecorder); is {
			return rec, true
		}
	}
	return nil, false
}

// recordNode makes a node of the group. The group must be on a single stream.
func (g *Group) recordNode(rec collectiveRecorder) dispatch.Result {
	if len(g.turns) != 1 {
		return dispatch.ResultNcclInvalidUsage
	}
	c := g.Capture()
	if rec.RecordCollective(c.Node(), c.Launch) != nil {
		return dispatch.ResultNcclUnhandledCudaError
	}
	return 0
}

// Capture makes the group, which is on a single stream, a node of a graph.
func (g *Group) Capture() *capturedGroup { return &capturedGroup{of: g.turns[0]} }

// Stream is the stream that the group was captured from.
func (c *capturedGroup) Stream() backend.Stream { return c.of.st.Backend }

// capturedGroup is a group that is a node of a graph. Each run of the node is a group of its own.
type capturedGroup struct {
	of *visit // the visit as captured: only copies of it begin

	mu      sync.Mutex
	waiting []*visit // launched, and not begun: runs follow each other
}

func (c *capturedGroup) Node() backend.ExchangeNode {
	return backend.ExchangeNode{Buffers: c.of.buffers, Begin: c.beginRun, Lend: c.lendRun}
}

// Launch issues the group: its members' turn is now, whenever the node runs.
func (c *capturedGroup) Launch() (after func()) {
	v := c.of.copyVisit()
	c.mu.Lock()
	c.waiting = append(c.waiting, v)
	c.mu.Unlock()
	for _, q := range v.parts {
		q.enterQueue()
	}
	return func() {
		c.mu.Lock()
		c.waiting = slices.DeleteFunc(c.waiting, func(w *visit) bool { return w == v })
		c.mu.Unlock()
		v.failMissedTurn()
	}
}

// nextVisit is the visit of a run, nil if there was no launch.
func (c *capturedGroup) nextVisit() *visit {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 {
		return nil
	}
	v := c.waiting[0]
	c.waiting = c.waiting[1:]
	return v
}

// beginRun begins a run of the node, with its buffers as bytes.
func (c *capturedGroup) beginRun(bytes [][]byte, done func(error)) {
	if v := c.nextVisit(); v != nil {
		v.beginTurn(bytes, done)
	} else {
		done(backend.IllegalState)
	}
}

// lendRun begins a run of the node, on memory in place.
func (c *capturedGroup) lendRun(spans []backend.Span, done func(error)) {
	if v := c.nextVisit(); v != nil {
		v.lendTurn(spans, done)
	} else {
		done(backend.IllegalState)
	}
}

// copyVisit returns a new visit with the same operations.
func (v *visit) copyVisit() *visit {
	w := &visit{st: v.st, buffers: v.buffers, slots: slices.Clone(v.slots), left: len(v.parts)}
	of := map[*part]*part{}
	for _, q := range v.parts {
		r := &part{m: q.m, ops: slices.Clone(q.ops), spans: make([]exchangedSpans, len(q.ops)), missing: 1, visits: []*visit{w}, fixed: true}
		of[q] = r
		w.parts = append(w.parts, r)
	}
	for i := range w.slots {
		w.slots[i].part = of[w.slots[i].part]
	}
	return w
}
