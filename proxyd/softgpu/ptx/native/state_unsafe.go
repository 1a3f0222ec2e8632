// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

import "unsafe"

const (
	wordBytes  = 128 // of a Word
	longBytes  = 256 // of a Long
	partBytes  = 64  // of a vector register
	firstSlot  = 10  // vector registers below are temporary
	slots      = 20  // vector registers that keep values
	vectors    = firstSlot + slots
	constIndex = 30 // the even numbers 0 to 30
	constNaN   = 31 // the NaN of f32
)

// State is the working state of machine code: the registers of a warp's frame, and the code's counters. The pointers
// must stay valid while code runs.
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
	Depth      uint32 // offset of the highest of Splits; 0: no lanes have parted
	Uniform    [Uniforms]uint32
	Splits     [MaxSplits]Split
	Windows    [windows][4]uintptr      // see measureWindow
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
	atDepth      = int32(unsafe.Offsetof(State{}.Depth))
	atSplits     = int32(unsafe.Offsetof(State{}.Splits))
	atUniform    = int32(unsafe.Offsetof(State{}.Uniform))
	atWindows    = int32(unsafe.Offsetof(State{}.Windows))
	atSave       = int32(unsafe.Offsetof(State{}.Save))
)

// Where the fields of a Split are.
const (
	splitBytes  = int32(unsafe.Sizeof(Split{}))
	atSplitCode = int32(unsafe.Offsetof(Split{}.code))
	atUnion     = int32(unsafe.Offsetof(Split{}.Union))
	atPending   = int32(unsafe.Offsetof(Split{}.Pending))
	atSplitPC   = int32(unsafe.Offsetof(Split{}.PC))
	atSplitJoin = int32(unsafe.Offsetof(Split{}.Join))
	atOuter     = int32(unsafe.Offsetof(Split{}.outer))
	atSame      = int32(unsafe.Offsetof(Split{}.Same))
	atMoved     = int32(unsafe.Offsetof(Split{}.Moved))
)

// Parted are the Splits that are left at an exit, the lowest first. moved tells whether the lanes that run have taken
// the place of lanes that waited above all of them.
func (s *State) Parted() (splits []Split, moved bool) {
	return s.Splits[1 : 1+s.Depth/uint32(splitBytes)], s.Splits[0].Moved
}

// HasParted reports whether Parted returns a Split or moved.
func (s *State) HasParted() bool { return s.Depth != 0 || s.Splits[0].Moved }

// forgetSplits empties the stack.
func (s *State) forgetSplits() { s.Depth, s.Splits[0].Moved = 0, false }
