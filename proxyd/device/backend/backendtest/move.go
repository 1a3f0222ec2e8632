// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"sync/atomic"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// testMove: a space that can move takes its memory and its queued work to another device, and leaves no memory
// behind.
func testMove(r *rig) {
	mover, is := r.space.(backend.Mover)
	if !is {
		return // backend.Mover is for backends that can
	}
	there := r.b.Devices()[0]
	if there == r.dev {
		there = r.secondDevice()
	}
	const n = 3 << 20
	a := r.allocBytes(n)
	want := makePattern(n, 3)
	r.copyIn(a, want)
	r.wantError("move a mapped space", mover.Move(there), backend.AlreadyMapped)
	r.pauseSpace()
	r.mustSucceed(r.stream.Fill(backend.Fill{Addr: a, Value: 9, Element: 1, Width: 5})) // the fill is held, and moves with the space
	r.wantError("move to nowhere", mover.Move(nil), backend.InvalidValue)
	r.mustSucceed(mover.Move(there))
	r.mustSucceed(mover.Move(there)) // the space is there already

	// Another space gets the device that the space has left, and then the device where the space is.
	other := must(r.dev.NewSpace(backend.SpaceConfig{Memory: smallMemory, Base: 60 << 40}))(r)
	r.mustSucceed(other.Map())
	r.mustSucceed(r.space.Map())
	r.syncStream()
	copy(want, []byte{9, 9, 9, 9, 9})
	r.wantBytes("moved", a, want)
	guest := must(there.NewSpace(backend.SpaceConfig{Memory: smallMemory, Base: 70 << 40}))(r)
	r.wantError("map a second space where it is", guest.Map(), backend.AlreadyMapped)
	r.mustSucceed(guest.Close())

	// The space moves back.
	r.mustSucceed(other.Unmap())
	r.pauseSpace()
	r.mustSucceed(mover.Move(r.dev))
	r.mustSucceed(r.space.Map())
	r.wantError("map the other space again", other.Map(), backend.AlreadyMapped)
	b := r.allocBytes(n)
	r.copyIn(b, want)
	r.wantBytes("moved back", a, want)
	r.wantBytes("allocated after the way back", b, want)
	r.mustSucceed(other.Close())
}

// lastOwner numbers the owners of spaces that move with variables: a number that no other space of the process has had.
var lastOwner atomic.Uint64

// movedProgram is what a program has in a space that moves.
type movedProgram struct {
	module  backend.Module
	bump    backend.Function
	counter backend.Addr
	out     backend.Addr
	exec    backend.Exec
	event   backend.Event
	at      time.Duration
}

// testMoveObjects: what a program has made in a space is there after a move, with the same handles, addresses and values:
// contexts, streams, events, modules, variables, graphs, limits and attributes.
func testMoveObjects(r *rig) {
	if _, is := r.space.(backend.Mover); !is {
		return // as in testMove
	}
	there := r.secondDevice()
	r.mustSucceed(r.space.Close())
	x := newRig(r.T, r.b, r.dev, backend.SpaceConfig{Memory: smallMemory, Owner: lastOwner.Add(1)})
	p := x.makeMovedProgram()
	mover := x.space.(backend.Mover)
	want := uint32(7)
	for i := range 3 {
		to := []backend.Device{there, r.dev}[i%2]
		x.pauseSpace()
		// Work that is queued before the move finds the driver's objects of after the move.
		x.mustSucceed(x.runKernel(p.bump, 1, joinArgs([]backend.Addr{p.out})))
		x.mustSucceed(x.stream.Graph(p.exec))
		x.mustSucceed(mover.Move(to))
		x.mustSucceed(x.space.Map())
		x.syncStream()
		x.wantBytes("the variable before", p.out, joinWords(want))
		want++
		x.wantBytes("the variable", p.counter, joinWords(want))
		x.wantBytes("the graph's word", p.out+64, joinWords(uint32(3*(2*i+1))))
		x.checkMovedProgram(p)
		x.mustSucceed(x.stream.Graph(p.exec))
		x.syncStream()
		x.wantBytes("the graph's word after the move", p.out+64, joinWords(uint32(3*(2*i+2))))
	}
	x.mustSucceed(p.exec.Destroy())
	x.mustSucceed(p.event.Destroy())
	x.mustSucceed(p.module.Unload())
	x.mustSucceed(x.space.Drain(x.ctx))
}

func (r *rig) makeMovedProgram() *movedProgram {
	r.Helper()
	p := &movedProgram{module: r.loadKernels(), out: r.allocBytes(128)}
	p.bump = r.findKernel(p.module, "bump")
	p.counter = must(p.module.Global("counter"))(r).Addr
	add := r.findKernel(p.module, "add")
	r.mustSucceed(add.SetAttribute(backend.FuncMaxDynamicShared, 1000))
	r.mustSucceed(r.cu.SetLimit(backend.LimitStackSize, 4096))
	var g backend.Graph
	must(g.Add(kernelNode(add, p.out+64, 3)))(r)
	p.exec = must(r.cu.Instantiate(&g))(r)
	p.event = must(r.cu.NewEvent(backend.EventConfig{}))(r)
	r.mustSucceed(r.stream.Record(p.event))
	r.syncStream()
	p.at = must(p.event.Time())(r)
	return p
}

// checkMovedProgram checks what the program sees.
func (r *rig) checkMovedProgram(p *movedProgram) {
	r.Helper()
	checkEqual(r, "address of the variable", must(p.module.Global("counter"))(r).Addr, p.counter)
	checkEqual(r, "attribute", must(r.findKernel(p.module, "add").Attribute(backend.FuncMaxDynamicShared))(r), 1000)
	checkEqual(r, "limit", must(r.cu.Limit(backend.LimitStackSize))(r), 4096)
	r.mustSucceed(p.event.Query())
	checkEqual(r, "time of the event", must(p.event.Time())(r), p.at)
	later := must(r.cu.NewEvent(backend.EventConfig{}))(r)
	r.mustSucceed(r.stream.Record(later))
	r.mustSucceed(r.stream.Wait(p.event))
	r.syncStream()
	if at := must(later.Time())(r); at <= p.at {
		r.Errorf("an event recorded after the move is at %v, an earlier event at %v", at, p.at)
	}
	r.mustSucceed(later.Destroy())
}

// testMovePeers: kernels of a space find the memory of a peer wherever both are.
func testMovePeers(r *rig) {
	if _, is := r.space.(backend.Mover); !is {
		return // as in testMove
	}
	there := r.secondDevice()
	r.mustSucceed(r.space.Close())
	r = newRig(r.T, r.b, r.dev, backend.SpaceConfig{Memory: smallMemory, Owner: lastOwner.Add(1)})
	cfg := r.configApart()
	peer := newRig(r.T, r.b, there, cfg)
	a := peer.allocBytes(64)
	r.mustSucceed(r.space.AllowPeer(peer.space))
	add := r.findKernel(r.loadKernels(), "add")
	check := func(what string, want uint32) {
		r.Helper()
		r.mustSucceed(r.runKernel(add, 1, joinArgs([]backend.Addr{a}, 1)))
		r.syncStream()
		r.wantBytes(what, a, joinWords(want))
	}
	check("of another device", 1)
	r.pauseSpace()
	peer.pauseSpace()
	r.mustSucceed(peer.space.(backend.Mover).Move(r.dev))
	r.mustSucceed(r.space.(backend.Mover).Move(there))
	r.mustSucceed(peer.space.Map())
	r.mustSucceed(r.space.Map())
	check("when both have moved", 2)
	r.mustSucceed(r.space.DenyPeer(peer.space))
	r.wantError("a second time", r.space.DenyPeer(peer.space), backend.PeerAccessNotEnabled)
}
