// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/replay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/graphs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/handles"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/modules"
)

// rebuild is the state of a process being restored, for the methods of process that carry its calls out again. A nil
// rebuild is of a process that lives.
type rebuild struct {
	p        *process
	st       *processState
	shift    time.Duration
	spaces   map[int32]*backend.State
	owners   map[int32]uint64
	contexts map[dispatch.Context]*driver.ContextState
	events   map[dispatch.Event]time.Duration
	shares   map[dispatch.Event]driver.RandomID
	modules  map[dispatch.Module]*modules.ModuleState
	loaded   map[loadedIn]*modules.ModuleState // of libraries
	memory   map[dispatch.Node]*graphs.MemoryOfNode
	without  map[backend.Addr]int // addresses without memory: see Alloc
	tables   map[replay.Class]handles.AnyTable
	wrapped  []*driver.Context

	// Of the call that is being carried out.
	refs    []replay.Ref
	library dispatch.Library // the call may load its code
}

type loadedIn struct {
	library dispatch.Library
	context dispatch.Context
}

func newRebuild(p *process, st *processState, shift time.Duration) *rebuild {
	r := &rebuild{
		p: p, st: st, shift: shift, spaces: map[int32]*backend.State{}, owners: map[int32]uint64{}, contexts: map[dispatch.Context]*driver.ContextState{},
		events: map[dispatch.Event]time.Duration{}, shares: map[dispatch.Event]driver.RandomID{}, modules: map[dispatch.Module]*modules.ModuleState{}, loaded: map[loadedIn]*modules.ModuleState{},
		memory: map[dispatch.Node]*graphs.MemoryOfNode{}, without: map[backend.Addr]int{}, tables: p.handleTables(),
	}
	for i := range st.Devices {
		r.spaces[st.Devices[i].Ordinal], r.owners[st.Devices[i].Ordinal] = st.Devices[i].State, st.Devices[i].Owner
	}
	for i := range st.Contexts {
		r.contexts[st.Contexts[i].Handle] = &st.Contexts[i]
	}
	for _, e := range st.Events {
		r.events[e.Handle] = e.At
	}
	for _, e := range st.Shared {
		r.shares[e.Handle] = e.Share
	}
	for i := range st.Graphs {
		r.memory[st.Graphs[i].Node] = &st.Graphs[i]
	}
	for i := range st.Modules {
		m := &st.Modules[i]
		r.modules[m.Handle] = m
		if m.Library != 0 {
			r.loaded[loadedIn{m.Library, m.Context}] = m
		}
	}
	return r
}

// SpaceState implements driver.Restorer, as the following methods.
func (r *rebuild) SpaceState(ordinal int32) *backend.State { return r.spaces[ordinal] }

func (r *rebuild) SpaceOwner(ordinal int32) uint64 { return r.owners[ordinal] }

func (r *rebuild) ContextID(h dispatch.Context) backend.ContextID {
	if r.contexts[h] == nil {
		return 0
	}
	return r.contexts[h].Backend
}

// WrapContext puts a rebuiltContext between a context and the program until the process is built.
func (r *rebuild) WrapContext(x *driver.Context) {
	x.Backend = &rebuiltContext{x.Backend, r, x.Handle, x.Space}
	r.wrapped = append(r.wrapped, x)
}

func (r *rebuild) EventShare(h dispatch.Event) driver.RandomID { return r.shares[h] }

func (r *rebuild) RecordedAt(h dispatch.Event) *time.Duration {
	if at, ok := r.events[h]; ok {
		return shiftTime(at, r.shift)
	}
	return nil
}

// rebuildAll builds the process.
func (r *rebuild) rebuildAll(_ context.Context, calls []replay.Call) error {
	for name, n := range r.st.Last {
		if t := r.tables[replay.Class(name)]; t != nil {
			t.Restore(n)
		}
	}
	if err := r.makeSpaces(); err != nil {
		return err
	}
	if err := r.p.RestoreMemory(r.st.Pools, r.st.Memories); err != nil {
		return err
	}
	for _, b := range r.st.HostMappings {
		if b.Kind != PinnedMemory {
			continue
		}
		if err := r.p.AwaitShare(backend.Addr(b.Address), b.Length); err != nil {
			return err
		}
	}
	first := r.replayCalls(calls)
	if err := r.p.LoadLibraries(r.st.Modules, func(l dispatch.Library) { r.refs, r.library = nil, l }); err != nil {
		return err
	}
	for _, x := range r.wrapped {
		x.Backend = x.Backend.(*rebuiltContext).Context
	}
	if err := r.correctState(); err != nil {
		return err
	}
	if err := r.checkHandles(first); err != nil {
		return err
	}
	r.p.JoinTimeSlices()
	return nil
}

// makeSpaces makes the spaces, with their allocations.
func (r *rebuild) makeSpaces() error {
	for i := range r.st.Devices {
		d := &r.st.Devices[i]
		if d.Ordinal < 0 || int(d.Ordinal) >= len(r.p.View) {
			return fmt.Errorf("there is no device %d: %w", d.Ordinal, ErrRestore)
		}
		r.p.RestoreFlags(d.Ordinal, d.Flags)
		r.p.RestorePoolsOf(d.Ordinal, d.Default, d.Pool) // a call that is recorded asks for the pools
		if d.State == nil {
			continue
		}
		if err := r.p.RestoreSpace(d.Ordinal); err != nil {
			return err
		}
	}
	for _, d := range r.st.Devices {
		for _, to := range d.Reaches {
			a, b := r.p.SpaceIfUsed(d.Ordinal), r.p.SpaceIfUsed(to)
			if a == nil || b == nil {
				return fmt.Errorf("device %d reaches %d: %w", d.Ordinal, to, ErrRestore)
			}
			if err := a.Reach(b); err != nil {
				return err
			}
		}
	}
	return nil
}

// replayCalls carries the calls out again and returns the first failure: checkHandles finds out whether it matters.
func (r *rebuild) replayCalls(calls []replay.Call) (first error) {
	for _, c := range calls {
		if err := r.replayCall(c); err != nil && first == nil {
			first = err
		}
	}
	return first
}

func (r *rebuild) replayCall(c replay.Call) error {
	rule, _ := replay.Look(c.Op)
	if !replay.Lasting(c.Op) {
		return fmt.Errorf("%s: the call is not one that a save has: %w", rule.Symbol, ErrRestore)
	}
	refs, err := replay.Refs(c.Op, c.In, c.Out)
	if err != nil {
		return err
	}
	r.refs, r.library = refs, r.p.LibraryOf(refs)
	var forced []handles.AnyTable
	for _, ref := range refs {
		t := r.tables[ref.Class]
		if t == nil || ref.Value < handles.FirstServer || ref.Verb != replay.Make && ref.Verb != "" || t.Has(ref.Value) {
			continue
		}
		t.Force(ref.Value)
		forced = append(forced, t)
	}
	defer func() {
		for _, t := range forced {
			t.Restore(t.Counter())
		}
	}()
	call := dispatch.Call{Process: r.p.ID, Context: dispatch.Context(c.Context), Waits: func() {}}
	_, result, err := r.serveCall(&call, c)
	// With the former answer: objects that are gone by now may have other handles this time.
	r.p.noteCall(&call, c.Op, c.In, c.Out, result, err)
	switch {
	case err != nil:
		return err
	case result != 0:
		return fmt.Errorf("%s returned %d: %w", rule.Symbol, result, ErrRestore)
	}
	return nil
}

// serveCall carries a call out. A call that ends a primary context was noted as if it named the context.
func (r *rebuild) serveCall(call *dispatch.Call, c replay.Call) ([]byte, dispatch.Result, error) {
	if c.Op == opDestroy && len(r.refs) == 1 {
		if x, ok := r.p.Contexts.Get(dispatch.Context(r.refs[0].Value)); ok && r.p.IsPrimary(x) {
			return nil, r.p.DevicePrimaryCtxResetV2(call, x.Space.Ordinal), nil
		}
	}
	return dispatch.Serve(r.p, *call, c.Op, c.In, nil)
}

// correctState sets the state that calls do not set: numbers, threads, and the state beside handles.
func (r *rebuild) correctState() error {
	p := r.p
	p.RestorePinned(r.st.Pinned)
	if err := p.graphs.RestoreMemory(r.st.Graphs); err != nil {
		return err
	}
	p.graphs.RestoreFootprints(r.st.Footprints)
	p.Buffers.Restore(r.st.Buffers, r.st.Buffer)
	if err := p.RestoreContexts(r.st.Contexts); err != nil {
		return err // checkHandles will report missing handles
	}
	if err := p.RestoreImports(r.st.Imports); err != nil {
		return err
	}
	p.RestoreStreams(r.st.Streams)
	p.RestoreCounters(r.st.Lasts, r.st.Late)
	for i := range r.st.Devices {
		st := &r.st.Devices[i]
		p.RestorePrimary(st.Ordinal, st.Retained, st.Flags)
		p.RestorePoolsOf(st.Ordinal, st.Default, st.Pool) // which calls may have changed
	}
	return nil
}

// checkHandles compares the handles with the handles that were alive.
func (r *rebuild) checkHandles(first error) error {
	for name, want := range r.st.Handles {
		t := r.tables[replay.Class(name)]
		for _, h := range want {
			if t == nil || !t.Has(h) {
				return errors.Join(fmt.Errorf("%s %#x was not made again: %w", name, h, ErrRestore), first)
			}
		}
	}
	for name, t := range r.tables {
		t.Rewind(r.st.Last[string(name)])
	}
	if first != nil {
		r.p.Log.Info("a call did not work again; nothing is missing", "error", first)
	}
	return nil
}

// rebuiltContext gives the modules and allocations of a restored program their former memory, which exists.
type rebuiltContext struct {
	backend.Context
	r      *rebuild
	handle dispatch.Context
	space  *driver.Space
}

// Unwrap is the context itself.
func (x *rebuiltContext) Unwrap() backend.Context { return x.Context }

// Load has a module take over its variables.
func (x *rebuiltContext) Load(data []byte, cfg backend.LoadConfig) (backend.Module, backend.Log, error) {
	if m := x.r.expectedModule(x.handle); m != nil {
		if m.Variables.Size > 0 {
			cfg.Globals = m.Variables.Base
		}
		x.r.tables["module"].Force(uint64(m.Handle))
	}
	return x.Context.Load(data, cfg)
}

// expectedModule is the module that the call loads into a context, nil if that is gone since.
func (r *rebuild) expectedModule(in dispatch.Context) *modules.ModuleState {
	if r.library != 0 {
		return r.loaded[loadedIn{r.library, in}]
	}
	for _, ref := range r.refs {
		if ref.Class == "module" && ref.Verb == replay.Make {
			return r.modules[dispatch.Module(ref.Value)]
		}
	}
	return nil
}

// Alloc finds the memory of a graph's node: a call that is made again never allocates other memory. A node or its
// context may be gone, and be made again because a living object needs it: then there is no memory behind its address,
// or the memory belongs to another node by now.
func (x *rebuiltContext) Alloc(n uint64) (backend.Addr, error) {
	var node *graphs.MemoryOfNode
	var was backend.Addr
	for _, ref := range x.r.refs {
		switch {
		case ref.Verb != replay.Make:
		case ref.Class == "node":
			node = x.r.memory[dispatch.Node(ref.Value)]
		case ref.Class == "devptr":
			was = backend.Addr(ref.Value)
		}
	}
	switch {
	case was == 0:
		return x.Context.Alloc(n)
	case node == nil:
		x.r.without[was]++
		return was, nil
	}
	if a, ok := x.space.Lookup(was); !ok || a.Base != was || node.Address != was {
		return 0, fmt.Errorf("memory of a graph at %#x: %w", uint64(was), ErrRestore)
	}
	return was, nil
}

// Free is Alloc's reverse.
func (x *rebuiltContext) Free(a backend.Addr) error {
	if x.r.without[a] == 0 {
		return x.Context.Free(a)
	}
	x.r.without[a]--
	return nil
}

// handleTables are all tables of a process, by the names that their classes have in the table of calls.
func (p *process) handleTables() map[replay.Class]handles.AnyTable {
	all := map[replay.Class]handles.AnyTable{}
	for _, part := range []map[replay.Class]handles.AnyTable{
		p.Process.Tables(), p.memoryCalls.Tables(), p.moduleCalls.Tables(), p.graphs.Tables(), p.ncclCalls.Tables(),
	} {
		maps.Copy(all, part)
	}
	return all
}
