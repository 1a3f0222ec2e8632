// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"sync/atomic"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// kernelNode adds v to the word at a.
func kernelNode(f backend.Function, a backend.Addr, v uint32) backend.KernelNode {
	return backend.KernelNode{Launch: backend.Launch{Function: f, Grid: one, Block: one, Params: joinArgs([]backend.Addr{a}, v)}}
}

func testGraphRun(r *rig) {
	add := r.findKernel(r.loadKernels(), "add")
	a := r.allocBytes(64)
	var g backend.Graph
	n1 := must(g.Add(backend.FillNode{Fill: backend.Fill{Addr: a, Value: 1, Element: 4, Width: 4}}))(r)
	n2 := must(g.Add(kernelNode(add, a, 10), n1))(r)
	n3 := must(g.Add(kernelNode(add, a+4, 20), n1))(r)
	n4 := must(g.Add(backend.CopyNode{Copy: backend.Copy{Src: deviceAt(a), Dst: deviceAt(a + 32), Width: 16}}, n2, n3))(r)
	x := must(r.cu.Instantiate(&g))(r)
	r.wantBytes("before a launch", a, joinWords(0))
	for range 3 {
		r.mustSucceed(r.stream.Graph(x))
	}
	r.syncStream()
	r.wantBytes("fork and join", a+32, joinWords(11, 21, 1, 1))
	// The graph is no longer needed, and changes to the graph have no effect.
	r.mustSucceed(g.Remove(n4))
	r.mustSucceed(r.stream.Fill(backend.Fill{Addr: a, Element: 1, Width: 64}))
	r.mustSucceed(r.stream.Graph(x))
	r.syncStream()
	r.wantBytes("after the graph changed", a+32, joinWords(11, 21, 1, 1))
	empty := must(r.cu.Instantiate(&backend.Graph{}))(r)
	r.mustSucceed(r.stream.Graph(empty))

	foreign := must(r.space.NewContext(0))(r)
	r.wantError("another context's graph", foreign.Legacy().Graph(x), backend.InvalidHandle)
	_, err := foreign.Instantiate(&g)
	r.wantError("another context's kernel", err, backend.InvalidHandle)
	r.mustSucceed(x.Destroy())
	r.wantError("destroy twice", x.Destroy(), backend.InvalidHandle)
	r.wantError("launch", r.stream.Graph(x), backend.InvalidHandle)
	r.syncStream()

	for _, tc := range []struct {
		name string
		node backend.Node
		want backend.Result
	}{
		{"copy from nowhere", backend.CopyNode{Copy: backend.Copy{Src: deviceAt(12345), Dst: deviceAt(a), Width: 4}}, backend.InvalidValue},
		{"fill nowhere", backend.FillNode{Fill: backend.Fill{Addr: 12345, Element: 1, Width: 1}}, backend.InvalidValue},
		{"launch of nothing", backend.KernelNode{Launch: backend.Launch{Function: add, Grid: one}}, backend.InvalidValue},
		{"no event", backend.RecordNode{}, backend.InvalidHandle},
		{"no function", backend.HostNode{}, backend.InvalidHandle},
	} {
		var g backend.Graph
		must(g.Add(tc.node))(r)
		_, err := r.cu.Instantiate(&g)
		r.wantError(tc.name, err, tc.want)
	}
}

func testGraphKinds(r *rig) {
	add := r.findKernel(r.loadKernels(), "add")
	a := r.allocBytes(64)
	before := must(r.cu.NewEvent(backend.EventConfig{}))(r)
	after := must(r.cu.NewEvent(backend.EventConfig{}))(r)
	called := 0
	var child backend.Graph
	c1 := must(child.Add(kernelNode(add, a, 1)))(r)
	must(child.Add(backend.HostNode{Func: func() { called++ }}, c1))(r)
	var g backend.Graph
	n := must(g.Add(backend.WaitNode{Event: before}))(r)
	n = must(g.Add(backend.EmptyNode{}, n))(r)
	n = must(g.Add(backend.ChildNode{Graph: &child}, n))(r)
	n = must(g.Add(backend.ChildNode{Graph: &child}, n))(r)
	n = must(g.Add(backend.ExchangeNode{
		Buffers: []backend.Buffer{{Addr: a, Size: 4, Write: true}},
		Begin:   func(b [][]byte, done func(error)) { b[0][0] *= 2; done(nil) },
	}, n))(r)
	must(g.Add(backend.RecordNode{Event: after}, n))(r)
	r.mustSucceed(child.Remove(c1)) // the graph has its own copy
	x := must(r.cu.Instantiate(&g))(r)

	other := must(r.cu.NewStream(backend.StreamConfig{NonBlocking: true}))(r)
	gate := make(chan struct{})
	r.mustSucceed(other.Host(func() { <-gate }))
	r.mustSucceed(other.Record(before))
	r.mustSucceed(r.stream.Graph(x))
	r.wantError("the event after", after.Query(), backend.NotReady)
	r.mustSucceed(other.Wait(after))
	close(gate)
	r.mustSucceed(other.Synchronize(r.ctx))
	r.syncStream()
	checkEqual(r, "host functions called", called, 2)
	r.wantBytes("kernels of the child, doubled", a, joinWords(4))

	// Branches that need each other run at the same time.
	ping, pong := make(chan struct{}), make(chan struct{})
	var fork backend.Graph
	must(fork.Add(backend.HostNode{Func: func() { ping <- struct{}{}; <-pong }}))(r)
	must(fork.Add(backend.HostNode{Func: func() { <-ping; pong <- struct{}{} }}))(r)
	r.mustSucceed(r.stream.Graph(must(r.cu.Instantiate(&fork))(r)))
	r.syncStream()
}

// testFaultInGraph: a fault in a graph is the context's, the program's functions behind the fault are not called, and
// the graph's events are reached.
func testFaultInGraph(r *rig) {
	cu := must(r.space.NewContext(0))(r)
	m, _, err := cu.Load([]byte(Kernels), backend.LoadConfig{})
	r.mustSucceed(err)
	e := must(cu.NewEvent(backend.EventConfig{}))(r)
	var bad backend.Graph
	k := must(bad.Add(kernelNode(must(m.Function("poke"))(r), 0, 1)))(r)
	var called atomic.Bool
	h := must(bad.Add(backend.HostNode{Func: func() { called.Store(true) }}, k))(r)
	must(bad.Add(backend.RecordNode{Event: e}, h))(r)
	y := must(cu.Instantiate(&bad))(r)
	r.mustSucceed(cu.Legacy().Graph(y))
	r.wantError("fault", e.Synchronize(r.ctx), backend.IllegalAddress)
	checkEqual(r, "a function behind the fault was called", called.Load(), false)
}

func testGraphUpdates(r *rig) {
	add := r.findKernel(r.loadKernels(), "add")
	a := r.allocBytes(64)
	build := func(v uint32) (*backend.Graph, backend.NodeID, backend.NodeID) {
		g := &backend.Graph{}
		n1 := must(g.Add(kernelNode(add, a, v)))(r)
		n2 := must(g.Add(kernelNode(add, a+4, v), n1))(r)
		return g, n1, n2
	}
	g, n1, n2 := build(1)
	x := must(r.cu.Instantiate(g))(r)
	gate := make(chan struct{})
	r.mustSucceed(r.stream.Host(func() { <-gate }))
	r.mustSucceed(r.stream.Graph(x))
	next, _, _ := build(10)
	must(x.Update(next))(r)
	close(gate)
	r.mustSucceed(r.stream.Graph(x))
	r.syncStream()
	r.wantBytes("the run before keeps its parameters", a, joinWords(11, 11))
	r.mustSucceed(x.Set(n1, kernelNode(add, a, 100)))
	r.mustSucceed(x.Enable(n2, false))
	checkEqual(r, "enabled", must(x.Enabled(n2))(r), false)
	checkEqual(r, "enabled", must(x.Enabled(n1))(r), true)
	r.mustSucceed(r.stream.Graph(x))
	r.mustSucceed(x.Enable(n2, true))
	r.syncStream()
	r.wantBytes("one node set, one off", a, joinWords(111, 11))

	other, _, last := build(5)
	r.mustSucceed(other.Disconnect(backend.Edge{From: 1, To: 2}))
	id, err := x.Update(other)
	r.wantError("other dependencies", err, backend.GraphExecUpdateFailure)
	checkEqual(r, "the node", id, last)
	other, _, last = build(5)
	r.mustSucceed(other.Remove(last))
	_, err = x.Update(other)
	r.wantError("fewer nodes", err, backend.GraphExecUpdateFailure)
	other, _, _ = build(5)
	extra := must(other.Add(backend.EmptyNode{}))(r)
	id, err = x.Update(other)
	r.wantError("more nodes", err, backend.GraphExecUpdateFailure)
	checkEqual(r, "the node", id, extra)
	r.wantError("another kind", x.Set(n1, backend.EmptyNode{}), backend.InvalidValue)
	r.wantError("no node", x.Set(99, backend.EmptyNode{}), backend.InvalidValue)
	r.wantError("wrong parameters", x.Set(n1, backend.KernelNode{Launch: backend.Launch{Function: add}}), backend.InvalidValue)
	r.wantError("no node", x.Enable(99, true), backend.InvalidValue)
	r.mustSucceed(r.stream.Graph(x))
	r.syncStream()
	r.wantBytes("nothing was changed", a, joinWords(211, 21))
}
