// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package backend is what the device server needs of devices. It speaks at the level of CUDA's driver, without
// the encoding of its handles: softgpu carries it out in software, backend/cuda hands it to the real driver. Package
// backendtest is its definition: what is not tested there is not promised.
//
//	Backend
//	└─ Device              what is in the machine
//	   └─ Space            what one rank sees as its device: addresses, memory, pools. One of a device is mapped at a time
//	      └─ Context       streams, events, modules; an execution fault stays in it
//	         ├─ Stream     ordered work
//	         ├─ Event      a point in a stream
//	         ├─ Module     code and its global variables
//	         └─ Exec       an instantiated Graph
//
// # What is decided above
//
// Which stream a default stream is: Context.Legacy is the one that orders itself with all others that are not NonBlocking,
// and one per thread is an ordinary Stream. Stream capture: whoever records calls builds a Graph of them, which is plain data,
// so that handles of nodes can be made up and capture state be answered without asking. Libraries: an image that is
// loaded into each context on demand. Handles, and who may use them. What a host function does: the function given to
// Stream.Host runs in the server, and most often only waits for the program. Collectives: Stream.Exchange and ExchangeNode hand
// device memory, in the stream's order, to whoever carries them out.
//
// # Errors
//
// An error wraps a Result, the driver's number, which ResultOf finds. What a program reacts to at the call is
// refused at the call: memory, launch configurations, names, addresses of copies. A fault of a kernel is found
// when it runs: the context's work is dropped from there, and each later call on the context returns that error.
//
// # Threads
//
// All methods may be called concurrently. Only those that say so wait for work on the device. Calls on what was
// closed, destroyed or unloaded return an error and do nothing else.
package backend

import (
	"context"
	"time"
)

// Backend holds the devices of one device server.
type Backend interface {
	// Devices lists them; ordinals are positions in it. It never changes.
	Devices() []Device
	// Close ends all spaces without waiting for what the program still owes, and frees everything.
	Close() error
}

// Device is one device of the machine.
type Device interface {
	Info() *Info
	// NewSpace makes a space, which is not mapped yet. A Base that is no multiple of 1 TiB, or a range that is smaller than
	// SpaceSize of its memory, is InvalidValue.
	NewSpace(SpaceConfig) (Space, error)
}

// Info describes a device. Nobody changes it.
type Info struct {
	Name       string
	UUID       [16]byte
	PCI        PCI
	Memory     uint64 // bytes
	Attributes Attributes
}

// Swap is what a device has moved, in all, to have room for the space that is mapped.
type Swap struct {
	Out, In uint64 // bytes, to the host's memory and back
	Took    time.Duration
	Most    uint64 // bytes of spaces that it had at once
}

// Swapper is a Device that counts what it moves.
type Swapper interface{ Swapped() Swap }

// InstructionCounter is a Device that counts the instructions which warps have issued, in all. For the same
// program the number is the same, whichever spaces share the device.
type InstructionCounter interface{ Instructions() uint64 }

// PCI is a device's place.
type PCI struct{ Domain, Bus, Device uint32 }

// SpaceConfig says what a rank's device is like.
type SpaceConfig struct {
	Base   Addr   // of all addresses, a multiple of 1 TiB; 0: DefaultBase
	Memory uint64 // bytes that the rank may allocate, whoever shares the device; 0: the device's
	// State, of a space with the same Base and Memory, is what the space begins with: all its memory at its addresses, with
	// content to be written by WriteBlock. Until such a space is mapped for the first time, Instantiate, and Update and Set of
	// what it returned, take nodes that name memory which is not there: it may have been freed since they were made.
	State *State
	// Output takes what kernels print (for descriptor 1) and failed assertions (for 2), a launch at a time and in a
	// stream's order. It must not call the backend. Nil drops it.
	Output func(fd int, text []byte)
	// Changed is called when what Work says may have changed, and when work that was held has come to its end. It must not
	// block, nor call the backend. Nil: nobody wants to know.
	Changed func()
}

// Granule is the granularity of VMM and of large allocations, and the size of a block of State.
const Granule = 2 << 20

// DefaultBase is the address at which a space begins: far from any heap or stack.
const DefaultBase Addr = 16 << 40

// SpaceSize is the number of addresses of a space for so much memory, a multiple of 1 TiB: at least 64 times as many,
// for programs reserve more than they use.
func SpaceSize(memory uint64) uint64 {
	const tib = 1 << 40
	return (64*memory + tib - 1) / tib * tib
}

// Space is one rank's device. Addresses are a pure function of what is allocated in it, so the same sequence
// of calls gives the same addresses in every space with the same configuration, before and after a restore.
type Space interface {
	Memory
	Virtual
	Pools

	// NewContext makes a context. id must not be in use; 0 takes the next one.
	NewContext(id ContextID) (Context, error)

	// Hold has no more work begin, as far as the backend can hold it back, so that Unmap will succeed soon. Map undoes it.
	Hold()
	// Unlimit lets streams take work beyond the limit at which they make their program wait, or no longer.
	Unlimit(on bool)
	// Pause has no more work begin, and work that has begun end: a kernel at the end of the blocks that run now, if the backend can
	// interrupt it. A graph that runs and work that waits for others go on. Map undoes it.
	Pause()
	// Freeing tells whether memory that was freed waits for work to be over that may use it.
	Freeing() bool
	// Map lets the space's work run. It fails with AlreadyMapped while another space of the device is mapped; it may do so while one
	// of another device is that has addresses in common with it, for a process may have only one memory at an address.
	// All its memory is on the device then; that of others is swapped to the host's where there is no room. What an Exchange
	// works on is not.
	Map() error
	// Unmap holds all work back. It fails with NotReady, and changes nothing, if work is under way: Drain first. What waits
	// for others, in an Exchange, a WaitValue or a function given to Host, is under way but does not keep the space
	// mapped: it may be waiting for who is to use the device next. An Exchange reads and writes its buffers until it is done,
	// mapped or not.
	Unmap() error
	// Work tells what the space's work is doing. Nothing is queued for the question.
	Work() WorkState
	// Drain waits until no work is left in any stream, whatever became of it. What streams are given meanwhile is
	// waited for too. It returns ctx's error if that is done first.
	Drain(ctx context.Context) error

	// State describes the space's memory. No call that changes memory may run meanwhile.
	State() *State
	// Blocks calls yield once for each block of memory, with its keyed hash, in any order and from several goroutines at once,
	// until one returns false. It works on unmapped spaces. Work that is under way makes hashes of bytes that nobody ever
	// saw at once.
	Blocks(key *[32]byte, yield func(BlockID, Hash) bool) error
	// ReadBlock copies a block's bytes into p, which is as long as the block. It returns false, and leaves p, if all are zero
	// and were never touched.
	ReadBlock(id BlockID, p []byte) (bool, error)
	// WriteBlock is the reverse. A nil p makes the block zero and gives back what it takes in the machine: what is
	// left to swap out when its bytes were read.
	WriteBlock(id BlockID, p []byte) error

	// Close frees everything. Work that has begun is cut short or waited for, what has not is dropped; functions
	// given to Host are not waited for, and bytes that an Exchange has go when it is done with them.
	Close() error
}

// WorkState is what a space's work is doing.
type WorkState uint8

// The states of a space's work.
const (
	Idle     WorkState = iota // there is none
	Waiting                   // all of it waits for others: in an Exchange, a WaitValue, a function given to Host, or behind an event
	Runnable                  // some is under way, or could be if the space were mapped
)

// ContextID names a context within its space; 0 is none.
type ContextID uint32

// Context is one of the program's contexts on a device.
type Context interface {
	ID() ContextID
	// Err is the fault that the context has, or nil.
	Err() error
	// Synchronize waits until no work is left in its streams and returns the fault, if there is one, or ctx's error.
	Synchronize(ctx context.Context) error

	// Alloc allocates memory that is zero, aligned to 512 bytes, to Granule if it is larger than half of it. It fails
	// with OutOfMemory or, for 0 bytes, InvalidValue. It may wait for work which uses addresses that were freed and
	// now return.
	Alloc(n uint64) (Addr, error)
	// AllocPitch allocates rows, each at a multiple of the pitch that it returns. element is 4, 8 or 16.
	AllocPitch(width, height uint64, element uint32) (Addr, uint64, error)
	// Free frees what any context's Alloc or a stream's AllocAsync returned; 0 is ignored, anything else
	// InvalidValue. It does not wait: work given to the space before still finds the memory, later work does not.
	Free(a Addr) error

	// Legacy is the stream that waits for all others which are not NonBlocking, and they for it.
	Legacy() Stream
	NewStream(StreamConfig) (Stream, error)
	NewEvent(EventConfig) (Event, error)

	// Load makes a module of an image as package image reads them. The log is worth reading in either case.
	Load(data []byte, cfg LoadConfig) (Module, Log, error)
	// Link makes one image of several, which Load takes. Names that nobody defines are refused now.
	Link(parts [][]byte, cfg LoadConfig) ([]byte, Log, error)

	// Instantiate makes a graph ready to run. The graph may change afterwards.
	Instantiate(g *Graph) (Exec, error)

	// Limit and SetLimit are cuCtxGetLimit and cuCtxSetLimit: UnsupportedLimit for what is none. LimitMallocHeap is
	// what kernels' malloc can give out, in a heap beside the space's memory; it cannot be changed any more once a
	// kernel of the space has used it.
	Limit(Limit) (uint64, error)
	SetLimit(Limit, uint64) error

	// Destroy ends the context: its streams' work is done first, then its memory, modules, events and streams are
	// gone. It waits for that. A context with a fault is destroyed too.
	Destroy() error
}

// Limit is a resource of a context, as the driver numbers them.
type Limit int32

// The limits.
const (
	LimitStackSize Limit = iota
	LimitPrintfFIFO
	LimitMallocHeap
	LimitSyncDepth
	LimitPendingLaunches
	LimitL2Fetch
	LimitPersistingL2
)
