// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// kernelNode adds v to the word at a.
func kernelNode(f backend.Function, a backend.Addr, v uint32) backend.KernelNode {
	return backend.KernelNode{Launch: backend.Launch{Function: f, Grid: one, Block: one, Params: args([]backend.Addr{a}, v)}}
}

func graphRun(r *rig) {
	add := r.function(r.load(), "add")
	a := r.alloc(64)
	var g backend.Graph
	n1 := must(g.Add(backend.FillNode{Fill: backend.Fill{Addr: a, Value: 1, Element: 4, Width: 4}}))(r)
	n2 := must(g.Add(kernelNode(add, a, 10), n1))(r)
	n3 := must(g.Add(kernelNode(add, a+4, 20), n1))(r)
	n4 := must(g.Add(backend.CopyNode{Copy: backend.Copy{Src: dev(a), Dst: dev(a + 32), Width: 16}}, n2, n3))(r)
	x := must(r.cu.Instantiate(&g))(r)
	r.has("before a launch", a, words(0))
	for range 3 {
		r.ok(r.stream.Graph(x))
	}
	r.sync()
	r.has("fork and join", a+32, words(11, 21, 1, 1))
	// The graph is no longer needed, and changes to the graph have no effect.
	r.ok(g.Remove(n4))
	r.ok(r.stream.Fill(backend.Fill{Addr: a, Element: 1, Width: 64}))
	r.ok(r.stream.Graph(x))
	r.sync()
	r.has("after the graph changed", a+32, words(11, 21, 1, 1))
	empty := must(r.cu.Instantiate(&backend.Graph{}))(r)
	r.ok(r.stream.Graph(empty))

	foreign := must(r.space.NewContext(0))(r)
	r.want("another context's graph", foreign.Legacy().Graph(x), backend.InvalidHandle)
	_, err := foreign.Instantiate(&g)
	r.want("another context's kernel", err, backend.InvalidHandle)
	r.ok(x.Destroy())
	r.want("destroy twice", x.Destroy(), backend.InvalidHandle)
	r.want("launch", r.stream.Graph(x), backend.InvalidHandle)
	r.sync()

	for _, tc := range []struct {
		name string
		node backend.Node
		want backend.Result
	}{
		{"copy from nowhere", backend.CopyNode{Copy: backend.Copy{Src: dev(12345), Dst: dev(a), Width: 4}}, backend.InvalidValue},
		{"fill nowhere", backend.FillNode{Fill: backend.Fill{Addr: 12345, Element: 1, Width: 1}}, backend.InvalidValue},
		{"launch of nothing", backend.KernelNode{Launch: backend.Launch{Function: add, Grid: one}}, backend.InvalidValue},
		{"no event", backend.RecordNode{}, backend.InvalidHandle},
		{"no function", backend.HostNode{}, backend.InvalidHandle},
	} {
		var g backend.Graph
		must(g.Add(tc.node))(r)
		_, err := r.cu.Instantiate(&g)
		r.want(tc.name, err, tc.want)
	}
}

func graphKinds(r *rig) {
	add := r.function(r.load(), "add")
	a := r.alloc(64)
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
	r.ok(child.Remove(c1)) // the graph has its own copy
	x := must(r.cu.Instantiate(&g))(r)

	other := must(r.cu.NewStream(backend.StreamConfig{NonBlocking: true}))(r)
	gate := make(chan struct{})
	r.ok(other.Host(func() { <-gate }))
	r.ok(other.Record(before))
	r.ok(r.stream.Graph(x))
	r.want("the event after", after.Query(), backend.NotReady)
	r.ok(other.Wait(after))
	close(gate)
	r.ok(other.Synchronize(r.ctx))
	r.sync()
	equal(r, "host functions called", called, 2)
	r.has("kernels of the child, doubled", a, words(4))

	// Branches that need each other run at the same time.
	ping, pong := make(chan struct{}), make(chan struct{})
	var fork backend.Graph
	must(fork.Add(backend.HostNode{Func: func() { ping <- struct{}{}; <-pong }}))(r)
	must(fork.Add(backend.HostNode{Func: func() { <-ping; pong <- struct{}{} }}))(r)
	r.ok(r.stream.Graph(must(r.cu.Instantiate(&fork))(r)))
	r.sync()

	// A fault in a graph is the context's, and its events are reached.
	cu := must(r.space.NewContext(0))(r)
	m, _, err := cu.Load([]byte(Kernels), backend.LoadConfig{})
	r.ok(err)
	e := must(cu.NewEvent(backend.EventConfig{}))(r)
	var bad backend.Graph
	k := must(bad.Add(kernelNode(must(m.Function("poke"))(r), 0, 1)))(r)
	must(bad.Add(backend.RecordNode{Event: e}, k))(r)
	y := must(cu.Instantiate(&bad))(r)
	r.ok(cu.Legacy().Graph(y))
	r.want("fault", e.Synchronize(r.ctx), backend.IllegalAddress)
}

func graphUpdates(r *rig) {
	add := r.function(r.load(), "add")
	a := r.alloc(64)
	build := func(v uint32) (*backend.Graph, backend.NodeID, backend.NodeID) {
		g := &backend.Graph{}
		n1 := must(g.Add(kernelNode(add, a, v)))(r)
		n2 := must(g.Add(kernelNode(add, a+4, v), n1))(r)
		return g, n1, n2
	}
	g, n1, n2 := build(1)
	x := must(r.cu.Instantiate(g))(r)
	gate := make(chan struct{})
	r.ok(r.stream.Host(func() { <-gate }))
	r.ok(r.stream.Graph(x))
	next, _, _ := build(10)
	must(x.Update(next))(r)
	close(gate)
	r.ok(r.stream.Graph(x))
	r.sync()
	r.has("the run before keeps its parameters", a, words(11, 11))
	r.ok(x.Set(n1, kernelNode(add, a, 100)))
	r.ok(x.Enable(n2, false))
	equal(r, "enabled", must(x.Enabled(n2))(r), false)
	equal(r, "enabled", must(x.Enabled(n1))(r), true)
	r.ok(r.stream.Graph(x))
	r.ok(x.Enable(n2, true))
	r.sync()
	r.has("one node set, one off", a, words(111, 11))

	other, _, last := build(5)
	r.ok(other.Disconnect(backend.Edge{From: 1, To: 2}))
	id, err := x.Update(other)
	r.want("other dependencies", err, backend.GraphExecUpdateFailure)
	equal(r, "the node", id, last)
	other, _, last = build(5)
	r.ok(other.Remove(last))
	_, err = x.Update(other)
	r.want("fewer nodes", err, backend.GraphExecUpdateFailure)
	other, _, _ = build(5)
	extra := must(other.Add(backend.EmptyNode{}))(r)
	id, err = x.Update(other)
	r.want("more nodes", err, backend.GraphExecUpdateFailure)
	equal(r, "the node", id, extra)
	r.want("another kind", x.Set(n1, backend.EmptyNode{}), backend.InvalidValue)
	r.want("no node", x.Set(99, backend.EmptyNode{}), backend.InvalidValue)
	r.want("wrong parameters", x.Set(n1, backend.KernelNode{Launch: backend.Launch{Function: add}}), backend.InvalidValue)
	r.want("no node", x.Enable(99, true), backend.InvalidValue)
	r.ok(r.stream.Graph(x))
	r.sync()
	r.has("nothing was changed", a, words(211, 21))
}
