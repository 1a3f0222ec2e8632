// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"context"
	"sync/atomic"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/splice"
)

// engine runs PTX. There is one engine besides those of tests, in a file of its own, so that all uses of package ptx by
// this package go through this interface.
type engine interface {
	// compileProgram links texts of PTX. The error wraps a Result, and the log says more.
	compileProgram(texts []string, c Capability, cfg backend.LoadConfig) (program, backend.Log, error)
	// estimateMemory estimates the bytes that such a program takes before its kernels are compiled.
	estimateMemory(texts []string, cfg backend.LoadConfig) uint64
	// describeKernels says how kernels are executed, as Backend.Kernels does.
	describeKernels() string
	// newAddresses makes an empty memory for kernels.
	newAddresses() addresses
}

// addresses is memory as kernels see it. Mapped bytes stay in place until unmapped, and a kernel that runs may use the
// bytes a little longer.
type addresses interface {
	Map(base uint64, bytes []byte, readOnly bool) error
	Unmap(base uint64) error
}

// program is linked code.
type program interface {
	// variableSpace is the size of all variables, and the alignment of their address.
	variableSpace() (size, align uint64)
	// placeVariables gives the variables their address, once, and returns their initial bytes.
	placeVariables(base uint64) ([]byte, error)
	// listGlobals lists the variables that have a name: Addr is the offset from base, or from the address of PlaceManaged if
	// Managed is set.
	listGlobals() []backend.Global
	// ManagedNames lists the variables that are declared managed, ManagedSpace is their size, 0 if there is none, and the alignment
	// of their address.
	ManagedNames() []string
	ManagedSpace() (size, align uint64)
	// PlaceManaged gives these variables an address apart, before variableSpace and placeVariables, and ManagedBytes returns
	// their initial bytes, after placeVariables.
	PlaceManaged(base uint64)
	ManagedBytes() ([]byte, error)
	// kernelNames lists the kernels, in the order of the text.
	kernelNames() []string
	// isDeferred tells that the kernels are to be compiled when the program asks for them, and not when the code is loaded.
	isDeferred() bool
	// findKernel compiles a kernel, after placeVariables. The error wraps a Result, and the log says more.
	findKernel(name string) (kernel, backend.Log, error)
}

// kernel is compiled code.
type kernel interface {
	kernelFacts() facts
	// runLaunch runs the kernel to its end, or until a pause between two blocks. runLaunch returns how many blocks
	// are done, in ascending order. The error wraps a Result.
	runLaunch(ctx context.Context, l *launch) (uint64, error)
}

// facts are the properties of a compiled kernel.
type facts struct {
	params     []backend.Param
	shared     uint32 // static
	local      uint32
	constant   uint32
	registers  uint32
	maxThreads uint32      // 0: any
	reqThreads backend.Dim // exactly, or zero
	ptx        int32       // the number of .target
	operations int         // instructions of all its functions
	hooks      bool        // its threads may call the functions of launch
	launches   bool        // its threads may launch kernels
	targets    []string    // kernels that have their addresses in its code
}

// launchCode is what a thread is told of a launch.
type launchCode uint8

const (
	launchRecorded launchCode = iota
	launchTooDeep
	launchTooMany
	launchOutOfResources
	launchBadConfiguration
)

// childLaunch is a launch by a thread of a kernel.
type childLaunch struct {
	kernel      string
	grid, block backend.Dim
	shared      uint32
	params      []byte
	tail        bool
}

// textOutput takes what a launch prints: to fd 1, or a failed assertion to fd 2.
type textOutput interface {
	addText(fd int, text []byte)
}

// launch is the arguments of a launch.
type launch struct {
	grid, block backend.Dim
	shared      uint32
	params      []byte
	memory      addresses
	output      textOutput
	malloc      func(n uint64) uint64 // this and the next functions are nil if the kernel does not call them
	free        func(addr uint64)
	condition   func(handle uint64, value uint32) // sets a condition of the graph
	family      *family                           // of a kernel that may launch kernels, else nil
	record      func(c childLaunch) launchCode    // takes a launch by a thread
	slots       int                               // how many launches record may be given
	cooperative bool
	workers     int // cores at most, 0: all
	stack       uint64
	sms         uint32
	issued      *atomic.Uint64 // instructions of warps, to be increased
	seen        *accesses      // takes the memory that the launch accesses, if not nil
	parts       []splice.Span  // parts of memory that seen tells apart; other allocations count as a whole
	done        uint64         // blocks that ran before
	paused      func() bool    // whether no more blocks are to begin; nil: they all do
}
