// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package server is the device server: the only process of a job and node that holds devices. The package joins the
// ring (libsingshim/wire), the calls that its messages mean (device/dispatch) and the devices (device/backend).
//
//	Server                 listens; the devices, and the space that has its turn on each
//	└─ process             a program's process: its ring, and the areas of calls
//	   ├─ driver.Process   contexts, streams, events, spaces, results and faults: every area embeds it
//	   ├─ driver           calls about devices, contexts, streams, events
//	   ├─ memory           allocations, pools, pinned memory, copies
//	   ├─ modules          code and launches        ├─ graphs    graphs and captures
//	   └─ nccl             communicators            └─ nvml      NVML's answers
//
// A Server has a Machine to itself, or shares one with the servers of other capsules: see Tenants.
//
// Package handles has the table of the objects behind a class of handles.
//
// A message goes this way:
//
//	ring ─► process.handleMessage ─► dispatch.Serve ─► a method of an area ─► backend
//	                                             │
//	        answered ◄── result, and bytes ◄─────┘
//
// # Writing a method
//
// The areas together implement dispatch.Backend: their types Calls, or …Calls, are embedded in process. A call that no
// area implements returns CUDA_ERROR_NOT_SUPPORTED, by dispatch.Unsupported, which is embedded deeper. A method begins
// with the objects that it needs and returns the program's result:
//
//	x, r := p.Current(c)                  the context that is current: INVALID_CONTEXT, or its fault
//	st, r := p.Stream(c, h)               a stream, also a default stream: INVALID_HANDLE
//	m, ok := p.modules.Get(h)             any other handle; see handles.Table
//	return p.Result(err)                  the driver's number of a backend's error
//
// All methods may be called at the same time: mostly by the goroutine that serves the ring, in the order of the ring,
// but calls that wait are on goroutines of their own. The state that an area keeps for a process is in the fields of
// its Calls; its ContextEnded is called when a context is destroyed. Areas do not know each other: newProcess hands an
// area the functions that it needs of another area.
//
// # Calls that wait
//
// The ring must go on while a call waits: the next message in the ring may be the one that ends the wait. So a call
// that may wait is named in its area's list of such calls (driver.ContextWaits, memory.CopyWaits, …). The call begins
// in the ring's order like any other, calls p.BeginWait(c) before waiting, without a lock, and simply returns at the
// end; p.Lifetime ends its wait when the process is gone. A call that should not take long but may, an allocation for
// example, need not call p.BeginWait: after a millisecond the ring goes on by itself. A posted call never waits:
// c.Waits is nil.
//
// # Late errors
//
// No program waits for a posted message. If its method returns an error, process.handleMessage does the rest: the call is
// logged once by its name, and the next call of the same context that synchronises returns the error (p.FinishWait does
// that). A goroutine of the backend that finds out later still calls p.FailLater. A fault of execution is not like
// that: the fault stays in the backend's context, p.Result writes it into the ring, and every later call of the process
// returns it.
//
// # Turns
//
// Each process has a space of its own on each device that it uses. The job's devices are the devices that it began
// with; several may be on the same device of the backend (Config.Order), and a restore may place them anew. Of the
// spaces on a device of the backend only one is mapped: driver/time_slices.go says how they take turns. Work that waits
// for other work, in a collective, for a value, for a host function or for another device's event, gives way, and does
// not get the device before it can go on. A kernel does not: a kernel that spins until another device's kernel has
// written something spins for ever if both are on the same device. How much memory a process may allocate, and is told
// to be free, does not depend on the other users of its device; the backend swaps memory that does not fit there at
// once to the host's memory when a space is mapped.
//
// # Collectives
//
// Package collective brings the ranks of a communicator together, in one server or several, carries their bytes through
// the host's memory, and reduces along the same tree over rank numbers. Where each rank has a device of its own, and
// the backend's devices can, they have a team besides (backend.Teams; nccl/team.go): NCCL on real devices, on memory
// where it is. Ranks that share a device have no team: their contributions are merged in their server, and the results
// are the same bits for every placement. Config.Exact asks for that in any case.
//
// # Locks
//
//	driver.Process.mu → TimeSlices.mu → ringHold.mu        driver.Context.mu → Space.mu
//	stateKeeper.mu → cutKeeper.mu → nccl.Member.mu
//	driver.Process.mu → Context.mu                         a table's and output's are taken last
//
// No lock is held during a wait.
//
// # A limit
//
// A stream that holds as much as it can (65536 pieces of work) makes the ring wait, as a device makes its program wait.
// If the stream is stuck behind a host function, and the function's return is a message further back in the
// ring, the ring waits for ever. In a cut there is no such limit.
//
// # Saved and restored
//
// state.go has the order of events. A method needs no code for it if the call's row in the table names the handles that
// the call makes and changes, and the answer has the handles; such calls are noted (process.noteCall) and carried out
// again in a new server, in which handles.Table.Make gives out the same handles as then. A call about objects that an
// area saves itself, with their contents, must not be carried out again as well, and is listed in state_history.go:
// calls of memory pools (ofPools) and of communicators (inComms) are. The state of a process beside handles stands in
// processState: a new field of driver.Process, its contexts, streams or devices that outlives a call must be added
// there. A part of a process with tables of its own has a method Tables; a part that can be in a state that cannot be
// saved has a method Unsaved, which says why.
//
// A call that has no answer as long as there is no news waits with the context of p.UntilCut, and answers that there is
// no news when that context is done: the shim asks again, at the gate.
//
// Work that is queued at a cut stays queued, and is saved as the messages that queued it: state_work.go and
// driver/held_work.go. A method that queues work finds its stream by p.Stream, which notes the stream for that; a
// method that does more than queue says so by driver.QueuedBy(c).Unrepeatable(). A call that waits for work waits by
// p.Wait, and is made again after a cut.
//
// Communicators are made again by Reconnect, with the job's other device servers; nccl/reconnect.go has the order of
// events. A member that waits in its rendezvous is saved as a waiting member. While a communicator has work under way,
// or is being connected or split, there is no cut.
//
// Memory of a process that the server has mapped (host_mappings.go: its ring, its pinned memory) is saved together with
// the process, and comes back at the same addresses; Adopt maps it again. Until then something else holds its place,
// because graphs are made again before. Memory of devices is read back whole before the first call is answered.
//
// A restored space has its first turn when its process is built. Until then its graphs may name memory that was freed
// since they were made: the launch fails then, or works on the memory that has the addresses by now, as without a
// restore.
//
// The parent of a device server orders a save over a socket that the parent has made and the server inherits;
// control.go has the messages. The files go through pipes, and Status reports the state of the server otherwise.
//
// # A cut of the whole job
//
// A job has several device servers, and its collectives are over all of them. A leader (package device/cut) finds
// a cut of them; this is the members' side of it, Exchange:
//
//	cut.go         an attempt: opened, its end without a leader, forgotten; the wait for events
//	cut_orders.go  the leader's orders: to drain, to shut all calls
//	cut_gate.go    a barrier.Gate for each process, over the counted gate and the permissions of its ring
//	cut_settle.go  collectives that no rank has begun are kept back, and the process comes to rest
//	cut_comms.go   members of communicators: made, given up, held where they meet
//
// From opening to forgetting an attempt no process is attached, and admission is locked for writing, as during a save.
// Without an attempt no message is sent and no count is read. Save with the attempt's number saves in its cut. Save
// without a number finds a cut of its own, of this server alone.
//
// # Trust
//
// A process can write any bytes into its messages: every handle, address and size in them is its claim. The worst that
// a process may achieve is to be dropped, or to get wrong results of its own.
package server
