// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package backend is the interface of devices to the device server. It is at the level of CUDA's driver, without
// the encoding of its handles: softgpu implements it in software, backend/cuda by the real driver. Package
// backendtest is its definition: it promises no behaviour that backendtest does not test.
//
//	Backend
//	└─ Device              a device of the machine
//	   └─ Space            the device that a rank sees: addresses, memory, pools. A device has one mapped space at a time
//	      └─ Context       streams, events, modules; an execution fault stays there
//	         ├─ Stream     ordered work
//	         ├─ Event      a point in a stream
//	         ├─ Module     code and its global variables
//	         └─ Exec       an instantiated Graph
//
// # Decisions of the layers above
//
// Which stream a default stream is: Context.Legacy is the stream that orders itself with all other streams that are not
// NonBlocking, and a default stream per thread is an ordinary Stream. Stream capture: the recorder of calls builds a
// Graph of them, which is plain data, so that handles of nodes can be made up, and questions about the capture state
// answered, without the backend. Libraries: an image that is loaded into each context on demand. Handles, and the right
// to use them. Host functions: the function given to Stream.Host runs in the server, and most often only waits for the
// program. Collectives: Stream.Exchange and ExchangeNode hand device memory, in the stream's order, to the code that
// carries them out.
//
// # Errors
//
// An error wraps a Result, the driver's number, which ResultOf finds. Errors that a program reacts to at the call
// are returned by the call: those of memory, launch configurations, names, addresses of copies. A fault of a
// kernel is found when the kernel runs: the context's work is dropped from there, and each later call on the
// context returns that error.
//
// # Threads
//
// All methods may be called concurrently. Only methods that say so wait for work on the device. Calls on an
// object that was closed, destroyed or unloaded return an error and have no effect.
package backend

import (
	"cmp"
	"context"
	"fmt"
)

// Backend holds the devices of a device server.
type Backend interface {
	// Devices lists the devices; ordinals are positions in the list, which never changes.
	Devices() []Device
	// Close ends all spaces without waiting for a step of the program, and frees everything.
	Close() error
}

// Device is a device of the machine.
type Device interface {
	Info() *Info
	// NewSpace makes a space, which is not mapped yet. A Base or a Size that is no multiple of 1 TiB, and a Size that is
	// smaller than SpaceSize of the memory, are InvalidValue.
	NewSpace(SpaceConfig) (Space, error)
}

// Info describes a device. An Info is never changed.
type Info struct {
	Name       string
	UUID       [16]byte
	PCI        PCI
	Memory     uint64 // bytes
	Attributes Attributes
}

// SpaceBlock is a block of a space.
type SpaceBlock struct {
	Space Space
	ID    BlockID
}

// CommonMemory is how much of the memory of a device's spaces is common: there once, and seen by several spaces, each of
// which gets bytes of its own when the space writes there.
type CommonMemory struct {
	Shared   uint64 // bytes that several spaces see, or may see again
	Saved    uint64 // bytes that would be there beside these if each space had its own
	Private  uint64 // bytes that spaces have for themselves
	Unshared uint64 // bytes that became common on the device and were until a space wrote there, in all
	Compared uint64 // bytes that were read to find blocks of spaces that are alike, in all
}

// BlockSharer is a Device that can hold memory once for several of its spaces.
type BlockSharer interface {
	// WriteBlocks is WriteBlock of the same bytes into blocks of the device's spaces, which may have the bytes in
	// common from then on. No kernel can tell the difference. Blocks of alike that hold the same bytes already may have
	// them in common too; no work may use the spaces of these blocks, and a block that cannot be in common stays as it
	// is.
	WriteBlocks(blocks, alike []SpaceBlock, p []byte) error
	Common() CommonMemory
}

// BufferSharer is a Backend that can hold bytes of collectives once for several spaces of a device. Its buffers are bytes
// that Exchange has handed out, of collectives that go on, and of which the collective writes all.
type BufferSharer interface {
	// CanShare tells whether GiveUp and Spread save memory for at least two of these buffers.
	CanShare(buffers [][]byte) bool
	// GiveUp gives up memory of a buffer. The buffer's bytes are undefined from then on, and it may be written to again.
	GiveUp(buffer []byte)
	// Spread gives buffers the bytes of from, which has their length, and which is one of the buffers or overlaps none.
	// Spaces may have the bytes in common from then on. No kernel can tell the difference.
	Spread(from []byte, buffers [][]byte)
}

// SpliceCounts counts the kernels that processes launched while they shared a device.
type SpliceCounts struct {
	Once     uint64 // launches that took the result of another space's launch
	Own      uint64 // launches that ran for their space
	Saved    uint64 // instructions that were not executed, because results were taken
	Compared uint64 // bytes that were read to find out which launches are alike
	Taken    uint64 // bytes of results that were copied, without those that became common memory
	Kept     uint64 // bytes of results that are kept now, beside the memory of the spaces
	Now      bool   // results have been taken lately
	Why      string // why most of the last launches that ran for their space did, in words
}

// Splicer is a Device that can run a kernel once for several spaces that launch it alike.
type Splicer interface{ Spliced() SpliceCounts }

// InstructionCounter is a Device that counts the instructions which warps have issued, in all. For the same
// program the number is the same, whichever spaces share the device.
type InstructionCounter interface{ Instructions() uint64 }

// Mover is a Space that can go to another device of its backend while the space is not mapped: Move fails with
// AlreadyMapped while the space is mapped, with InvalidValue if the device is of another backend, and with NotReady if
// something is under way that needs the space where it is, a collective for example. Memory, addresses, contexts and
// queued work stay. If Move fails, the space is where it was, as it was, unless its contexts have a fault.
type Mover interface{ Move(to Device) error }

// Overlapper is a Device that can map spaces with any addresses, also with addresses of spaces that are mapped on other
// devices: see Space.Map.
type Overlapper interface{ MayOverlap() }

// PCI is a device's place.
type PCI struct{ Domain, Bus, Device uint32 }

// SpaceConfig describes a rank's device.
type SpaceConfig struct {
	Base   Addr   // of all addresses, a multiple of 1 TiB; 0: DefaultBase
	Size   uint64 // of all addresses; 0: SpaceSize of the memory
	Memory uint64 // bytes that the rank may allocate, however the device is shared; 0: the device's
	// Owner is a number that the space has among those of its process, and has again when it is restored: memory that a
	// driver places by itself for the space is then in the same place. Numbers that differ by a multiple of OwnerPlaces
	// have the same place.
	Owner uint64
	// State is the state of a space with the same Base and Memory. The new space begins with all memory of the State at
	// its addresses; WriteBlock writes the content. Until the space is mapped for the first time, Instantiate, and
	// Update and Set of an Exec, accept nodes that name memory which is not there: the memory may have been freed since
	// the nodes were made.
	State *State
	// Group is a number that spaces have in common which may share memory: see Sharer.
	Group uint64
	// Output takes the text that kernels print (fd 1) and failed assertions (fd 2), a launch at a time and in a
	// stream's order. Output must not call the backend. Nil drops the text.
	Output func(fd int, text []byte)
	// Changed is called when the result of Work may have changed, and when work that was held has come to its end.
	// Changed must not block, nor call the backend. It may be nil.
	Changed func()
}

// OwnerPlaces is how many places there are for memory that a driver places by itself; those of number 0 are the server's own.
const OwnerPlaces = 768

// Granule is the granularity of VMM and of large allocations, and the size of a block of State.
const Granule = 2 << 20

// DefaultBase is the address at which a space begins: far from any heap or stack.
const DefaultBase Addr = 16 << 40

// SpaceSize is the number of addresses of a space for so much memory, a multiple of 1 TiB: at least 64 times as many,
// because programs reserve more than they use.
func SpaceSize(memory uint64) uint64 {
	const tib = 1 << 40
	return (64*memory + tib - 1) / tib * tib
}

// CheckAddresses completes the place of a space: Base, Memory (the device's if it is 0) and Size.
func (c *SpaceConfig) CheckAddresses(d *Info) error {
	c.Base, c.Memory = cmp.Or(c.Base, DefaultBase), cmp.Or(c.Memory, d.Memory)
	least := SpaceSize(c.Memory)
	c.Size = cmp.Or(c.Size, least)
	const tib, top = 1 << 40, 1 << 47
	if c.Base%tib != 0 || c.Size%tib != 0 || c.Memory%Granule != 0 || c.Size < least || c.Size > top || uint64(c.Base) > top-c.Size {
		return fmt.Errorf("space of %d bytes in %d addresses at %#x: %w", c.Memory, c.Size, uint64(c.Base), InvalidValue)
	}
	return nil
}

// Space is a rank's device. Addresses are a pure function of the allocations in the space, so the same sequence of
// calls gives the same addresses in every space with the same configuration, before and after a restore.
type Space interface {
	Memory
	MappableMemory
	Pools

	// NewContext makes a context. id must not be in use; 0 takes the next number.
	NewContext(id ContextID) (Context, error)

	// Hold keeps further work from beginning, as far as the backend can hold work back, so that Unmap will
	// succeed soon. Map undoes it.
	Hold()
	// Unlimit lets streams take work beyond the limit at which they make their program wait, or no longer.
	Unlimit(on bool)
	// Pause keeps further work from beginning, and ends work that has begun: a kernel at the end of the blocks that run
	// now, if the backend can interrupt the kernel. A graph that runs and work that waits for other work go on. Map
	// undoes Pause.
	Pause()
	// Freeing tells whether memory that was freed waits for the end of work that may use the memory.
	Freeing() bool
	// Map lets the space's work run. Map fails with AlreadyMapped while another space of the device is mapped. Map may
	// also fail so while a space of another device is mapped that has addresses in common with this space, because a
	// process may have only one memory at an address. All memory of the space is on the device then; memory of other
	// spaces is swapped to the host where there is no room. Buffers of an Exchange under way are not swapped.
	Map() error
	// Unmap holds all work back. If work is under way, Unmap fails with NotReady and the space stays mapped: Drain
	// first. Work that waits, in an Exchange, a WaitValue or a function given to Host, is under way but does not keep
	// the space mapped: the work may be waiting for the next user of the device. An Exchange reads and writes its
	// buffers until done, mapped or not.
	Unmap() error
	// Work returns the state of the space's work, without queueing any.
	Work() WorkState
	// Drain waits until no work is left in any stream, also after a fault. Drain waits also for work that streams
	// are given meanwhile, and returns ctx's error if ctx is done first.
	Drain(ctx context.Context) error

	// State describes the space's memory. No call that changes memory may run meanwhile.
	State() *State
	// Blocks calls yield once for each block of memory, with its keyed hash, in any order and from several goroutines at once,
	// until one returns false. Blocks works on unmapped spaces. While work is under way, a hash may be of bytes that no
	// reader ever saw at once.
	Blocks(key *[32]byte, yield func(BlockID, Hash) bool) error
	// ReadBlock copies a block's bytes into p, which is as long as the block. ReadBlock returns false, and leaves p, if
	// all are zero and were never touched.
	ReadBlock(id BlockID, p []byte) (bool, error)
	// WriteBlock is the reverse. A nil p makes the block zero and gives back its memory in the machine: so a caller
	// that has read the bytes swaps the block out.
	WriteBlock(id BlockID, p []byte) error

	// Close frees everything. Work that has begun is cut short or waited for, other work is dropped. Close does
	// not wait for functions given to Host; the buffers of an Exchange are freed when the Exchange is done.
	Close() error
}

// WorkState is the state of a space's work.
type WorkState uint8

// The states of a space's work.
const (
	Idle     WorkState = iota // there is no work
	Waiting                   // all work waits: in an Exchange, a WaitValue, a function given to Host, or behind an event
	Runnable                  // some work is under way, or could be if the space were mapped
)

// ContextID names a context within its space; 0 names no context.
type ContextID uint32

// Context is a context of the program on a device.
type Context interface {
	ID() ContextID
	// Err is the fault that the context has, or nil.
	Err() error
	// Synchronize waits until no work is left in its streams and returns the fault, if any, or ctx's error.
	Synchronize(ctx context.Context) error

	// Alloc allocates memory that is zero, aligned to 512 bytes, to Granule if larger than half of a Granule. Alloc
	// fails with OutOfMemory or, for 0 bytes, InvalidValue. Alloc may wait for work which uses addresses that were
	// freed and now return.
	Alloc(n uint64) (Addr, error)
	// AllocPitch allocates rows, each at a multiple of the returned pitch. element is 4, 8 or 16.
	AllocPitch(width, height uint64, element uint32) (Addr, uint64, error)
	// Free frees memory that any context's Alloc or a stream's AllocAsync returned. It ignores 0; other addresses
	// are InvalidValue. Free does not wait: work given to the space before still finds the memory, later work does
	// not.
	Free(a Addr) error

	// Legacy is the stream that waits for all streams that are not NonBlocking, and these wait for Legacy.
	Legacy() Stream
	NewStream(StreamConfig) (Stream, error)
	NewEvent(EventConfig) (Event, error)

	// Load makes a module of an image as package image reads them. The Log may have text with and without an error.
	Load(data []byte, cfg LoadConfig) (Module, Log, error)
	// Link makes a single image of several, which Load takes. Undefined names are refused now.
	Link(parts [][]byte, cfg LoadConfig) ([]byte, Log, error)

	// Instantiate makes a graph ready to run. The graph may change afterwards.
	Instantiate(g *Graph) (Exec, error)

	// Limit and SetLimit are cuCtxGetLimit and cuCtxSetLimit: UnsupportedLimit for other numbers. LimitMallocHeap is
	// the number of bytes that kernels' malloc can give out, in a heap beside the space's memory; this limit cannot
	// be changed any more once a kernel of the space has used the heap.
	Limit(Limit) (uint64, error)
	SetLimit(Limit, uint64) error

	// Destroy ends the context: its streams' work is done first, then its memory, modules, events and streams are
	// gone. Destroy waits for that. A context with a fault is destroyed too.
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
