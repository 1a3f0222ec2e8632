// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"bytes"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/memory"
)

// Threads launch kernels by functions of CUDA's device runtime, which is PTX: nvcc links it with the program. The device
// runtime calls functions of the driver, which are here. The names and the numbers are those of the device runtime's text.

// Child is a launch by a thread.
type Child struct {
	Kernel      string // of the program
	Grid, Block Dim3
	Shared      uint32
	Params      []byte
	Tail        bool // the child follows the launching grid and the other children of that grid
}

// LaunchCode is what a thread is told of a launch: the device runtime translates the numbers.
type LaunchCode uint32

// The codes of launches.
const (
	LaunchRecorded         LaunchCode = 0
	LaunchInvalidValue     LaunchCode = 1
	LaunchTooDeep          LaunchCode = 5
	LaunchOutOfResources   LaunchCode = 6
	LaunchBadConfiguration LaunchCode = 7
	LaunchTooMany          LaunchCode = 12
)

// errorNumbers are the runtime's numbers of the codes, as which the driver sets a thread's last error.
var errorNumbers = map[LaunchCode]uint32{
	LaunchInvalidValue: 1, LaunchTooDeep: 65, LaunchOutOfResources: 701, LaunchBadConfiguration: 9, LaunchTooMany: 69,
}

// The streams of the device runtime that have numbers. The order in which the launches of a block run, each after the
// launches before, suits all streams but the stream for tail launches.
const (
	tailStream  = 3
	firstHandle = 0x100   // of a stream or an event that a thread has made
	graphStream = 1 << 56 // from here on: streams for graphs
)

// driverCall begins the names of the functions in driverCalls.
const driverCall = "__cuda_syscall_cnpv2"

var driverCalls = map[string]builtin{
	"GetParameterBuffer":   callParameterBuffer,
	"GetParameterBufferV2": callParameterBufferV2,
	"LaunchDevice":         callLaunchDevice,
	"LaunchDeviceV2":       callLaunchDeviceV2,
	"GetLastError":         callGetError,
	"SetLastError":         callSetError,
	"StreamCreate":         callMakeHandle,
	"EventCreate":          callMakeHandle,
	"StreamDestroy":        callSucceed,
	"StreamWaitEvent":      callSucceed,
	"EventRecord":          callSucceed,
	"EventDestroy":         callSucceed,
}

// childBuffers are the buffers that threads of a launch were given for the parameters of launches of their own. A thread
// uses a buffer at once: the buffers of a block go when the block is done.
type childBuffers struct {
	scratch memory.Scratch
	buffers map[uint64]*childBuffer
	given   int // launches, and buffers for launches
}

// childBuffer is such a buffer. In the second form of the call the buffer belongs to a launch.
type childBuffer struct {
	size  uint32
	child *Child
}

func (x *childBuffers) forgetBuffers(r *launch) {
	if x.given > 0 {
		clear(x.buffers)
		x.given = 0
		x.scratch.Reset(r.memory)
	}
}

// takeSlot takes the place of a launch, if there is any left.
func (x *childBuffers) takeSlot(r *launch) LaunchCode {
	if x.given >= r.cfg.MostChildren {
		return LaunchTooMany
	}
	x.given++
	return LaunchRecorded
}

// allocBuffer allocates a buffer, and returns the address.
func (x *childBuffers) allocBuffer(r *launch, b childBuffer) (uint64, LaunchCode) {
	if code := x.takeSlot(r); code != LaunchRecorded {
		return 0, code
	}
	at := x.scratch.Alloc(r.memory, uint64(max(b.size, 1)))
	if at == 0 {
		return 0, LaunchTooMany
	}
	if x.buffers == nil {
		x.buffers = map[uint64]*childBuffer{}
	}
	x.buffers[at] = &b
	return at, LaunchRecorded
}

// giveBuffer passes a buffer to a thread. Without a buffer the address is 0, and the thread's last error says why.
func giveBuffer(w *warp, in *inst, lane int, at uint64, code LaunchCode) {
	if code != LaunchRecorded {
		setError(w, lane, errorNumbers[code])
	}
	w.setRet(in, lane, at)
}

func setError(w *warp, lane int, number uint32) {
	b := w.block
	if b.lastErrors == nil {
		b.lastErrors = map[int]uint32{}
	}
	b.lastErrors[w.id*warpSize+lane] = number
}

// readDim reads three words. They are an argument, or lie at the address that is the argument.
func readDim(w *warp, in *inst, k, lane int) Dim3 {
	var b []byte
	switch site := in.ext.call; {
	case k >= len(site.args):
	case site.args[k].inMemory && site.args[k].size == 12:
		b = w.local.LaneBytes(lane, w.cur.frame.local+site.args[k].offset, 12)
	default:
		b = w.genericBytes(w.readArg(in, k, lane), 12, lane)
	}
	if b == nil {
		return Dim3{}
	}
	return Dim3{X: uint32(readBytes(b[:4])), Y: uint32(readBytes(b[4:8])), Z: uint32(readBytes(b[8:]))}
}

// makeChild makes the launch of the kernel at an address. The arguments from the k-th on are two extents and the size of
// shared memory. The size of the kernel's parameters is returned, too.
func makeChild(w *warp, in *inst, kernel uint64, k, lane int) (*Child, uint32, LaunchCode) {
	entry, ok := w.block.run.kernel.entries[kernel]
	if !ok {
		return nil, 0, LaunchInvalidValue
	}
	c := &Child{Kernel: entry.name, Grid: readDim(w, in, k, lane), Block: readDim(w, in, k+1, lane), Shared: uint32(w.readArg(in, k+2, lane))}
	return c, entry.params, LaunchRecorded
}

// launchChild passes a launch on, with its parameters at an address.
func launchChild(w *warp, c *Child, at uint64, size uint32, stream uint64) LaunchCode {
	r := w.block.run
	if size > 0 {
		if c.Params = bytes.Clone(r.memory.Bytes(at, uint64(size))); c.Params == nil {
			return LaunchInvalidValue
		}
	}
	if r.cfg.Hooks.LaunchKernel == nil || stream >= graphStream {
		return LaunchInvalidValue
	}
	c.Tail = stream == tailStream
	return r.cfg.Hooks.LaunchKernel(*c)
}

// callParameterBuffer takes the alignment and the size of a buffer.
func callParameterBuffer(w *warp, in *inst, m uint32) {
	r := w.block.run
	for ; m != 0; m &= m - 1 {
		i := lowestLane(m)
		at, code := uint64(0), LaunchInvalidValue
		if size := w.readArg(in, 1, i); size <= maxParams {
			at, code = r.children.allocBuffer(r, childBuffer{size: uint32(size)})
		}
		giveBuffer(w, in, i, at, code)
	}
}

// callParameterBufferV2 takes a kernel, its grid, its block, and the size of its shared memory.
func callParameterBufferV2(w *warp, in *inst, m uint32) {
	r := w.block.run
	for ; m != 0; m &= m - 1 {
		i, at := lowestLane(m), uint64(0)
		c, size, code := makeChild(w, in, w.readArg(in, 0, i), 1, i)
		if code == LaunchRecorded {
			at, code = r.children.allocBuffer(r, childBuffer{size, c})
		}
		giveBuffer(w, in, i, at, code)
	}
}

// callLaunchDevice takes a kernel, a buffer, the addresses of the grid and of the block, the size of shared memory, and a
// stream. The buffer has a place among the launches already.
func callLaunchDevice(w *warp, in *inst, m uint32) {
	r := w.block.run
	for ; m != 0; m &= m - 1 {
		i := lowestLane(m)
		at := w.readArg(in, 1, i)
		c, size, code := makeChild(w, in, w.readArg(in, 0, i), 2, i)
		b := r.children.buffers[at]
		switch {
		case code != LaunchRecorded:
		case at == 0 && size == 0:
			code = r.children.takeSlot(r)
		case b == nil || b.child != nil || b.size < size:
			code = LaunchInvalidValue
		}
		if code == LaunchRecorded {
			code = launchChild(w, c, at, size, w.readArg(in, 5, i))
			delete(r.children.buffers, at)
		}
		w.setRet(in, i, uint64(code))
	}
}

// callLaunchDeviceV2 takes a buffer and a stream.
func callLaunchDeviceV2(w *warp, in *inst, m uint32) {
	r := w.block.run
	for ; m != 0; m &= m - 1 {
		i := lowestLane(m)
		at, code := w.readArg(in, 0, i), LaunchInvalidValue
		if b := r.children.buffers[at]; b != nil && b.child != nil {
			code = launchChild(w, b.child, at, b.size, w.readArg(in, 1, i))
			delete(r.children.buffers, at)
		}
		w.setRet(in, i, uint64(code))
	}
}

// callMakeHandle makes a stream or an event, and writes the handle to the address that is the first argument. Neither has
// a state: see tailStream.
func callMakeHandle(w *warp, in *inst, m uint32) {
	for ; m != 0; m &= m - 1 {
		i := lowestLane(m)
		addr := w.readArg(in, 0, i)
		b := w.genericBytes(addr, 8, i)
		if b == nil {
			w.raiseFault(IllegalAddress, in, i, addr, "")
		}
		writeBytes(b, firstHandle)
		w.setRet(in, i, 0)
	}
}

func callSucceed(w *warp, in *inst, m uint32) {
	for ; m != 0; m &= m - 1 {
		w.setRet(in, lowestLane(m), 0)
	}
}

func callGetError(w *warp, in *inst, m uint32) {
	for ; m != 0; m &= m - 1 {
		i := lowestLane(m)
		w.setRet(in, i, uint64(w.block.lastErrors[w.id*warpSize+i]))
	}
}

// callSetError returns the number, and the device runtime returns that to the thread.
func callSetError(w *warp, in *inst, m uint32) {
	for ; m != 0; m &= m - 1 {
		i := lowestLane(m)
		number := uint32(w.readArg(in, 0, i))
		setError(w, i, number)
		w.setRet(in, i, uint64(number))
	}
}
