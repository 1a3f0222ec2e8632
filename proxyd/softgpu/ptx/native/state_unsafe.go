// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

import "unsafe"

const (
	wordBytes  = 128 // of a Word
	longBytes  = 256 // of a Long
	partBytes  = 64  // of a vector register
	firstSlot  = 10  // vector registers below are for the moment
	slots      = 20  // vector registers that keep values
	vectors    = firstSlot + slots
	constIndex = 30 // the even numbers 0 to 30
	constNaN   = 31 // the NaN of f32
)

// State is what machine code works on: the registers of a warp's frame, and what the code counts. The pointers must stay
// valid while code runs.
type State struct {
	File32, File64   unsafe.Pointer // registers
	Const32, Const64 unsafe.Pointer
	Flags            unsafe.Pointer // of the frame, 4 bytes each
	Sites            unsafe.Pointer // to a *memory.Range for each access
	Shared           unsafe.Pointer // the block's memory
	Local            unsafe.Pointer // the local memory of the warp's threads, in their order
	Params           unsafe.Pointer // of the kernel
	Threads          unsafe.Pointer // %tid: x, y, z, of 32 lanes each

	Budget int64  // branches that may be taken before the code returns
	Issued uint64 // instructions, counted up
	Ticks  uint64 // of the warp's clock, counted up

	Mask       uint32 // lanes that run
	Meet       int32  // the join at which these lanes wait, or -1
	SharedSize uint32 // bytes
	LocalSize  uint32 // bytes of a thread, a multiple of 16
	Frame      uint32 // where the frame's local memory begins
	Exit       uint32 // written by the code: which exit it took
	Spinning   bool   // memory that other threads may change was read
	LocalUsed  bool   // local memory was written
	Uniform    [Uniforms]uint32
	Save       [vectors][partBytes]byte // vector registers at exits
}

// Uniforms is the number of special registers with the same value in all lanes that State has; their places are up to the
// caller.
const Uniforms = 12

// Where the fields are.
const (
	atFile32     = int32(unsafe.Offsetof(State{}.File32))
	atFile64     = int32(unsafe.Offsetof(State{}.File64))
	atConst32    = int32(unsafe.Offsetof(State{}.Const32))
	atConst64    = int32(unsafe.Offsetof(State{}.Const64))
	atFlags      = int32(unsafe.Offsetof(State{}.Flags))
	atSites      = int32(unsafe.Offsetof(State{}.Sites))
	atShared     = int32(unsafe.Offsetof(State{}.Shared))
	atLocal      = int32(unsafe.Offsetof(State{}.Local))
	atParams     = int32(unsafe.Offsetof(State{}.Params))
	atThreads    = int32(unsafe.Offsetof(State{}.Threads))
	atBudget     = int32(unsafe.Offsetof(State{}.Budget))
	atIssued     = int32(unsafe.Offsetof(State{}.Issued))
	atTicks      = int32(unsafe.Offsetof(State{}.Ticks))
	atMask       = int32(unsafe.Offsetof(State{}.Mask))
	atMeet       = int32(unsafe.Offsetof(State{}.Meet))
	atSharedSize = int32(unsafe.Offsetof(State{}.SharedSize))
	atLocalSize  = int32(unsafe.Offsetof(State{}.LocalSize))
	atFrame      = int32(unsafe.Offsetof(State{}.Frame))
	atExit       = int32(unsafe.Offsetof(State{}.Exit))
	atSpinning   = int32(unsafe.Offsetof(State{}.Spinning))
	atLocalUsed  = int32(unsafe.Offsetof(State{}.LocalUsed))
	atUniform    = int32(unsafe.Offsetof(State{}.Uniform))
	atSave       = int32(unsafe.Offsetof(State{}.Save))
)
