// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
)

// recorder takes the place of a call's stream when the call is not to be carried out but to become a node:
// dispatch.Call.Into. So a node is made by the method that would do the work at once. Only the shim knows that a stream
// captures, and on which nodes the new node depends.
type recorder struct {
	p    *Graphs
	used *driver.Stream // the stream that the call asked for, nil if the call asked for no stream
	made []backend.Node
	graphWork
}

var _ backend.Stream = (*recorder)(nil)

// Progress implements backend.Stream: a capture runs no work.
func (rec *recorder) Progress() backend.Progress { return backend.Progress{} }
func (rec *recorder) Given() uint64              { return 0 }

// StreamOf is the stream of a recorded call: of the same context as the real stream. A call that asks for several
// streams gets the same stream each time.
func (rec *recorder) StreamOf(c *dispatch.Call, h dispatch.Stream) (*driver.Stream, dispatch.Result) {
	real := *c
	real.Into = nil
	st, r := rec.p.Stream(&real, h)
	if r != 0 {
		return nil, r
	}
	if rec.used == nil {
		rec.context = st.Context
		rec.used = &driver.Stream{Backend: rec, Context: st.Context, ID: st.ID, Flags: st.Flags}
	}
	if rec.context != st.Context {
		return nil, dispatch.ResultNotSupported // a graph has a single context
	}
	return rec.used, 0
}

// recordCall has a call recorded that works on a stream of the context, 0: the current one.
func (p *Graphs) recordCall(c *dispatch.Call, ctx dispatch.Context, call func(*dispatch.Call) dispatch.Result) (*recorder, dispatch.Result) {
	rec := &recorder{p: p}
	rec.kind = emptyNode
	into := *c
	into.Into, into.Waits, into.PerThread = rec, nil, false
	if ctx != 0 {
		into.Context = ctx
	}
	r := call(&into)
	if r == 0 && rec.used == nil {
		r = dispatch.ResultInvalidValue
	}
	return rec, r
}

// recordedNode is the recorded work, as a single node.
func (rec *recorder) recordedNode() (backend.Node, error) {
	switch len(rec.made) {
	case 0: // a copy of no bytes has no work
		return backend.EmptyNode{}, nil
	case 1:
		return rec.made[0], nil
	}
	var chain backend.Graph
	var last []backend.NodeID
	for _, n := range rec.made {
		id, err := chain.Add(n, last...)
		if err != nil {
			return nil, err
		}
		last = []backend.NodeID{id}
	}
	return backend.ChildNode{Graph: &chain}, nil
}

func (rec *recorder) addOperation(kind int32, n backend.Node) error {
	rec.kind = kind
	if len(rec.made) > 0 {
		rec.kind = BatchNode
	}
	rec.made = append(rec.made, n)
	return nil
}

func errUnrecorded(what string) error {
	return fmt.Errorf("record %s: %w", what, backend.Result(dispatch.ResultStreamCaptureUnsupported))
}

// Config implements backend.Stream, as all below.
func (rec *recorder) Config() backend.StreamConfig { return backend.StreamConfig{} }

func (rec *recorder) Copy(c backend.Copy) error {
	return rec.addOperation(MemcpyNode, backend.CopyNode{Copy: c})
}

func (rec *recorder) Fill(f backend.Fill) error {
	return rec.addOperation(MemsetNode, backend.FillNode{Fill: f})
}

func (rec *recorder) Launch(l backend.Launch) error {
	return rec.addOperation(KernelNode, backend.KernelNode{Launch: l})
}

func (rec *recorder) Record(e backend.Event) error {
	return rec.addOperation(recordNode, backend.RecordNode{Event: e})
}

func (rec *recorder) Wait(e backend.Event) error {
	return rec.addOperation(waitNode, backend.WaitNode{Event: e})
}

// Write is a copy of a constant.
func (rec *recorder) Write(a backend.Addr, size int, value uint64) error {
	b := make(driver.BytesMemory, 8)
	binary.LittleEndian.PutUint64(b, value)
	err := rec.addOperation(BatchNode, backend.CopyNode{Copy: backend.Copy{
		Src: backend.CopySide{Host: b[:size]}, Dst: backend.CopySide{Addr: uint64(a)}, Width: uint64(size),
	}})
	rec.kind = BatchNode
	return err
}

func (rec *recorder) WaitValue(backend.Addr, int, uint64, backend.Condition) error {
	return errUnrecorded("a wait for a value")
}

func (rec *recorder) Host(f func()) error {
	return rec.addOperation(HostNode, backend.HostNode{Func: f})
}

func (rec *recorder) Exchange([]backend.Buffer, func([][]byte, func(error))) error {
	return errUnrecorded("a collective alone")
}

// RecordCollective implements collectiveRecorder.
func (rec *recorder) RecordCollective(n backend.ExchangeNode, launch func() (after func())) error {
	rec.collective = launch
	return rec.addOperation(collectiveNode, n)
}

// AllocAsync allocates for as long as there is a graph with the node: see graphMemory.
func (rec *recorder) AllocAsync(_ backend.PoolID, n uint64) (backend.Addr, error) {
	a, err := rec.context.Backend.Alloc(n)
	if err != nil {
		return 0, err
	}
	rec.memory = &graphMemory{context: rec.context, addr: a, size: n}
	return a, rec.addOperation(allocNode, backend.EmptyNode{})
}

// FreeAsync frees memory that a node has allocated.
func (rec *recorder) FreeAsync(a backend.Addr) error {
	rec.p.lockGraphs()
	defer rec.p.unlockGraphs()
	if rec.p.memory[a] == nil && rec.p.Restoring == nil { // else the memory may be gone since
		return fmt.Errorf("record a free of %#x: %w", uint64(a), backend.InvalidValue)
	}
	rec.frees = a
	return rec.addOperation(freeNode, backend.EmptyNode{})
}

func (rec *recorder) Graph(backend.Exec) error          { return errUnrecorded("a graph") }
func (rec *recorder) Query() error                      { return errUnrecorded("a question") }
func (rec *recorder) Synchronize(context.Context) error { return errUnrecorded("a wait") }
func (rec *recorder) Destroy() error                    { return errUnrecorded("an end") }

// Captured implements dispatch.Backend: Captured makes a node of the message of a call.
func (p *NodeCalls) Captured(c *dispatch.Call, node dispatch.Node, in dispatch.Graph, deps []dispatch.Node, _ uint64, counts []dispatch.Ncclcount, _ uint32, op uint32, args []uint8, _, m uint64) ([]uint8, uint64, dispatch.Result) {
	info, known := dispatch.Look(op)
	switch {
	case !known || info.Symbol == "captured":
		return nil, 0, dispatch.ResultInvalidValue
	case info.Symbol == "cuEventRecordWithFlags" && len(args) >= 8: // an event outside of the graph
		return nil, 0, p.addEvent(node, in, deps, recordNode, dispatch.Event(binary.LittleEndian.Uint64(args)))
	case info.Symbol == "cuStreamWaitEvent" && len(args) >= 16:
		return nil, 0, p.addEvent(node, in, deps, waitNode, dispatch.Event(binary.LittleEndian.Uint64(args[8:])))
	case info.Symbol == "graph_launch" && len(args) >= 8:
		return nil, 0, p.addLaunch(node, in, deps, dispatch.Graphexec(binary.LittleEndian.Uint64(args)))
	}
	var out []byte
	rec, r := p.recordCall(c, 0, func(into *dispatch.Call) (r dispatch.Result) {
		var err error
		out, r, err = dispatch.Serve(p.served, *into, op, args, nil)
		if err != nil {
			return dispatch.ResultInvalidValue
		}
		return r
	})
	if r == 0 && uint64(len(out)) > m {
		r = dispatch.ResultInvalidValue
	}
	if r != 0 {
		p.dropMemory(rec.memory)
		return nil, 0, r
	}
	if info.Symbol == "launch" || info.Symbol == "launch_ex" {
		rec.function = dispatch.Function(binary.LittleEndian.Uint64(args))
	}
	rec.counts = counts
	if rec.memory != nil {
		rec.memory.node = node
	}
	return out, uint64(len(out)), p.addRecorded(node, in, deps, rec)
}
