// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"time"
)

// The range of priorities; a lower number is served first.
const (
	LeastPriority    = 0
	GreatestPriority = -5
)

// StreamConfig configures a stream.
type StreamConfig struct {
	NonBlocking bool // the stream does not wait for the legacy stream
	Priority    int  // brought into the range
}

// Stream is a queue of work, carried out in order. Different streams' work runs at the same time, as far as
// priorities, events and the legacy stream do not order it. Methods return before the work is done, but may wait
// while very much is queued. A method's error says that no work was queued: InvalidValue for an address without
// an allocation, InvalidHandle for an object that belongs to another context or is gone, or the context's fault.
type Stream interface {
	Config() StreamConfig
	// Copy queues a copy; see the type.
	Copy(Copy) error
	// Fill queues a cuMemset of any kind.
	Fill(Fill) error
	// Launch queues a kernel. A kernel that cannot run is refused: see CheckLaunch.
	Launch(Launch) error
	// Record lets e stand for all work queued so far.
	Record(e Event) error
	// Wait holds later work back until the work that e stands for now is done. It does not wait for an event that was
	// never recorded.
	Wait(e Event) error
	// Write queues a write of 4 or 8 bytes.
	Write(a Addr, size int, value uint64) error
	// WaitValue holds later work back until the 4 or 8 bytes at a satisfy the condition.
	WaitValue(a Addr, size int, value uint64, cond Condition) error
	// Host queues a function. f may take long, because it holds up this stream only, and must not call methods that
	// wait for this stream. f is called even if the context has a fault by then.
	Host(f func()) error
	// Exchange queues work that other code does with device memory: a collective. begin is called when its turn comes,
	// with the bytes of each buffer, and must not block; the stream goes on when done is called, once. An error given
	// to done is a fault of the context if it wraps a Result. With ErrPutBack, on a stream that is not a Lender, begin is
	// called again when the space is mapped and not paused; until then the work has not begun.
	Exchange(buffers []Buffer, begin func(bytes [][]byte, done func(error))) error
	// AllocAsync allocates from a pool: the address is known now, the memory is there for later work of this stream,
	// and for other work ordered after it. Its bytes are zero, or left there by an earlier allocation of the space.
	AllocAsync(pool PoolID, n uint64) (Addr, error)
	// FreeAsync frees memory that Alloc or AllocAsync returned, in this stream's order.
	FreeAsync(a Addr) error
	// Graph queues a run of an instantiated graph. Runs of the same graph follow each other.
	Graph(x Exec) error

	// Progress tells how far the stream's work is. Progress may be called after Destroy, too.
	Progress() Progress
	// Given is Progress().Given, in less time.
	Given() uint64
	// Query is nil if no work is left, else NotReady.
	Query() error
	// Synchronize waits until the work queued so far is done. Synchronize returns the context's fault or ctx's error.
	Synchronize(ctx context.Context) error
	// Destroy ends the stream at once; its work is still done.
	Destroy() error
}

// Progress tells how far a stream's work is. A call of a method that queues work gives the stream a piece of work, or
// no piece if the call has no effect. While the space is unmapped, only calls and waiting work change the Progress.
type Progress struct {
	Given, Done uint64 // pieces of work
	// Begun: the first piece that is not done has begun and cannot be given to another stream in its place. A WaitValue
	// can, and so can a kernel that was paused, of which PartialKernel is the part that is done.
	Begun   bool
	Partial PartialKernel
}

// PartialKernel is the part that is done of a kernel that was paused between two of its blocks. A Launch with
// a PartialKernel does the rest.
type PartialKernel struct {
	Blocks  uint64 // in ascending order
	Printed uint64 // bytes of the printf FIFO that are used
	// Launches has the launches by the kernel's threads that are not done, in a form of the backend's own; "": none.
	Launches string `json:",omitempty"`
}

// Condition decides when a WaitValue is over, as the driver numbers them: unsigned arithmetic but for AtLeast, which is
// cyclic.
type Condition uint32

// The conditions, of the value *a in memory.
const (
	AtLeast Condition = iota // (signed)(*a - value) >= 0
	Equal
	And // *a & value != 0
	Nor // ^(*a | value) != 0
)

// Holds tells whether a word of 4 or 8 bytes satisfies the condition that was given with value.
func (c Condition) Holds(word, value uint64, size int) bool {
	mask := ^uint64(0) >> (64 - 8*size)
	word, value = word&mask, value&mask
	switch c {
	case AtLeast:
		return (word-value)&mask>>(8*size-1) == 0
	case Equal:
		return word == value
	case And:
		return word&value != 0
	default:
		return ^(word|value)&mask != 0
	}
}

// ErrPutBack is given to an Exchange's done by code that has read and written no bytes, and wants its turn again later.
var ErrPutBack = errors.New("the exchange has its turn later")

// Buffer is a range of device memory that an Exchange uses.
type Buffer struct {
	Addr  Addr
	Size  uint64
	Write bool
}

// HostMemory is the memory of a program. Both methods may be called from any goroutine, at the time when a copy is
// carried out. An error ends the copy. If it wraps a Result, it is a fault of the context; other errors are known to
// the HostMemory's owner, which tells the program.
type HostMemory interface {
	Read(addr uint64, p []byte) error
	Write(addr uint64, p []byte) error
}

// Copy is a copy of up to three dimensions: Depth slices of Height rows of Width bytes. Height and Depth of 0 are 1.
// A Width of 0 copies no bytes. Source and destination of a row may overlap.
type Copy struct {
	Src, Dst             CopySide
	Width, Height, Depth uint64
}

// CopySide is a side of a copy. A row begins at Addr + X + Pitch*(Y + Rows*Z); Pitch of 0 is Width, Rows of 0 Height.
type CopySide struct {
	Host    HostMemory // the program's memory, or nil: the device's
	Space   Space      // of another device, or nil: the stream's own
	Addr    uint64
	Pitch   uint64
	Rows    uint64 // of a slice
	X, Y, Z uint64 // X in bytes
}

// Fill sets Height rows of Width elements to a value of 1, 2 or 4 bytes. Addr and, for several rows, Pitch must be
// multiples of Element.
type Fill struct {
	Addr          Addr
	Value         uint32
	Element       uint32 // bytes
	Width, Height uint64 // Height of 0 is 1
	Pitch         uint64
}

// EventConfig configures an event.
type EventConfig struct {
	NoTiming bool
	// At, if not nil, is a time at which the event was recorded and reached, by the backend's clock: an event of a
	// restored program.
	At *time.Duration
}

// Event is a point in a stream's work.
type Event interface {
	Config() EventConfig
	// Query returns nil if the work recorded last is done, or no work was recorded; else NotReady.
	Query() error
	// Synchronize waits for the event, and returns the context's fault or ctx's error.
	Synchronize(ctx context.Context) error
	// Time returns when the work recorded last was done, by the backend's clock. It fails with InvalidHandle if no
	// work was recorded or the event has no timing, and with NotReady before the work is done.
	Time() (time.Duration, error)
	Destroy() error
}
