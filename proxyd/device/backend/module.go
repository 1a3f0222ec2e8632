// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package backend

import "fmt"

// LoadConfig has a program's options for the just-in-time compiler, as far as they have an effect.
type LoadConfig struct {
	MaxRegisters uint32 // of a thread, 0: any
	Verbose      bool   // the log names the resources that each kernel uses
	// Globals, if not 0, is the address of a module's variables in the State that the space was made with: the module
	// takes them over as they are. InvalidValue if this context has no variables there, or of another size.
	Globals Addr
	Managed ManagedVariables
}

// ManagedVariables is where a module's variables that are declared managed lie: memory that MapHost has mapped, at an address of
// the program's, so that the program uses the variables by their addresses.
type ManagedVariables struct {
	// Offered tells that the program can have such memory. A module with such variables is not loaded then while At is 0: the
	// error is a ManagedError. If no memory is offered, the variables lie in the device's memory, kernels that use these are
	// refused, and Global says so.
	Offered bool
	At      Addr
	Kept    bool // the variables are there from another load of the code, and keep their bytes
}

// ManagedError is the error of code that is loaded with an offer of managed memory, and needs that.
type ManagedError struct{ Size uint64 }

// Error implements error.
func (e *ManagedError) Error() string {
	return fmt.Sprintf("variables that are declared __managed__ need %d bytes of managed memory", e.Size)
}

// Unwrap implements errors: the Result of the error.
func (e *ManagedError) Unwrap() error { return HostMemoryNotRegistered }

// Log is the text of the just-in-time compiler.
type Log struct{ Info, Error string }

// Global is a variable of a module.
type Global struct {
	Name string
	Addr Addr
	Size uint64

	Managed bool // declared managed: the program uses the variable by its address
	Absent  bool // managed, and the program cannot: the variable is not in the memory of ManagedVariables
}

// Module is loaded code.
type Module interface {
	// Function finds a kernel: the same value each time. Function fails with NotFound, or NotSupported for a kernel
	// that the backend refuses to run.
	Function(name string) (Function, error)
	// Functions lists all kernels in the order of the code.
	Functions() []Function
	// Global finds a variable, or NotFound.
	Global(name string) (Global, error)
	// Variables is the range of all variables' bytes in the State, for LoadConfig.Globals; of size 0 without variables.
	// The variables themselves lie there, too, unless a driver has placed them by itself: see State.Variables.
	Variables() Range
	// Unload ends the module; launches queued before still run.
	Unload() error
}

// Param is the place of a parameter in a kernel's block of parameters.
type Param struct{ Offset, Size uint32 }

// Function is a kernel of a module.
type Function interface {
	Name() string
	Module() Module
	Params() []Param
	// Required is the only block size that the kernel may be launched with, or zero for any.
	Required() Dim
	// Attribute is an attribute of the driver's, or InvalidValue.
	Attribute(FunctionAttribute) (int32, error)
	// SetAttribute changes an attribute that can change: the dynamic shared memory that a launch may ask for, and the
	// preferred carve-out, which has no effect. For other attributes, and for values out of range, InvalidValue.
	SetAttribute(FunctionAttribute, int32) error
}

// FunctionAttribute is an attribute of a kernel, as the driver numbers them.
type FunctionAttribute int32

// The attributes of kernels.
const (
	FuncMaxThreads FunctionAttribute = iota
	FuncSharedSize
	FuncConstSize
	FuncLocalSize
	FuncRegisters
	FuncPTXVersion
	FuncBinaryVersion
	FuncCacheModeCA
	FuncMaxDynamicShared
	FuncSharedCarveout
	FuncClusterSizeMustBeSet
	FuncRequiredClusterWidth
	FuncRequiredClusterHeight
	FuncRequiredClusterDepth
	FuncNonPortableCluster
	FuncClusterScheduling
	FunctionAttributes // how many there are
)

// Dim is an extent of a grid or a block.
type Dim struct{ X, Y, Z uint32 }

// Count is the number of positions in the block.
func (d Dim) Count() uint64 { return uint64(d.X) * uint64(d.Y) * uint64(d.Z) }

// Launch is a launch of a kernel.
type Launch struct {
	Function    Function
	Grid, Block Dim
	Shared      uint32 // bytes of dynamic shared memory
	Params      []byte // the block of parameters; the backend keeps the block
	Cooperative bool
	Attributes  []LaunchAttribute // those for which KeepAttribute is true
	Done        PartialKernel     // the part that was done before; NotSupported by a backend that cannot pause kernels
}

// CheckLaunch refuses the launches that the driver refuses at the call; a shim that has the function's attributes can
// do the same.
//
//	a dimension is 0 or beyond the device's    InvalidValue
//	more threads than any block has            InvalidValue
//	more threads than this kernel may have     InvalidValue; LaunchOutOfResources if they have too many registers
//	another block than the kernel requires     InvalidValue
//	more dynamic shared memory than is set     InvalidValue
//	fewer bytes of parameters                  InvalidValue
//	cooperative, and not all blocks fit        CooperativeLaunchTooBig
//	clusters, on a device without them         InvalidClusterSize
func CheckLaunch(info *Info, l *Launch) error {
	if err := CheckExtents(info, l); err != nil {
		return err
	}
	var facts [FunctionAttributes]int32
	for _, a := range []FunctionAttribute{FuncMaxThreads, FuncMaxDynamicShared, FuncSharedSize, FuncRegisters} {
		v, err := l.Function.Attribute(a)
		if err != nil {
			return err
		}
		facts[a] = v
	}
	f := LaunchFacts{
		MaxThreads: facts[FuncMaxThreads], MaxDynamicShared: facts[FuncMaxDynamicShared], Shared: facts[FuncSharedSize], Registers: facts[FuncRegisters],
		Required: l.Function.Required(), Params: SizeOfParams(l.Function.Params()),
	}
	return f.CheckLaunch(info, l)
}

// LaunchFacts are the properties of a kernel that decide which of its launches are refused.
type LaunchFacts struct {
	MaxThreads, MaxDynamicShared, Shared, Registers int32 // the attributes of these names

	Required Dim    // see Function
	Params   uint32 // bytes
}

// SizeOfParams is the size of a block of these parameters.
func SizeOfParams(all []Param) uint32 {
	if len(all) == 0 {
		return 0
	}
	last := all[len(all)-1]
	return last.Offset + last.Size
}

// CheckLaunch is the part of the function CheckLaunch that regards the kernel, for a kernel with these facts.
func (f *LaunchFacts) CheckLaunch(info *Info, l *Launch) error {
	at, threads := &info.Attributes, l.Block.Count()
	shared := uint64(f.Shared) + uint64(l.Shared)
	switch {
	case threads > uint64(f.MaxThreads):
		r := InvalidValue
		if threads > uint64(RegisterThreads(info, uint32(max(f.Registers, 0)))) {
			r = LaunchOutOfResources
		}
		return fmt.Errorf("launch %s: %d threads, the kernel may have %d: %w", l.Function.Name(), threads, f.MaxThreads, r)
	case f.Required != (Dim{}) && f.Required != l.Block:
		return fmt.Errorf("launch %s: block %v is not the required %v: %w", l.Function.Name(), l.Block, f.Required, InvalidValue)
	case uint64(l.Shared) > uint64(max(f.MaxDynamicShared, 0)):
		return fmt.Errorf("launch %s: %d bytes of dynamic shared memory, %d are allowed: %w", l.Function.Name(), l.Shared, f.MaxDynamicShared, InvalidValue)
	case shared > uint64(at[MaxSharedPerBlockOptin]):
		return fmt.Errorf("launch %s: %d bytes of shared memory, %d of them dynamic, the device has %d for a block: %w", l.Function.Name(),
			shared, l.Shared, at[MaxSharedPerBlockOptin], InvalidValue)
	case l.ClusterBlocks() > 1 && at[ClusterLaunch] == 0:
		return fmt.Errorf("launch %s: clusters of %d blocks: %w", l.Function.Name(), l.ClusterBlocks(), InvalidClusterSize)
	case len(l.Params) < int(f.Params):
		return fmt.Errorf("launch %s: %d bytes of parameters, not %d: %w", l.Function.Name(), len(l.Params), f.Params, InvalidValue)
	}
	if l.Cooperative {
		fit := uint64(Occupancy(info, Resources{
			Threads: uint32(threads), Registers: uint32(f.Registers), Shared: uint32(f.Shared) + l.Shared,
		})) * uint64(at[Multiprocessors])
		if n := l.Grid.Count(); n > fit {
			return fmt.Errorf("launch %s: %d blocks at once, %d fit: %w", l.Function.Name(), n, fit, CooperativeLaunchTooBig)
		}
	}
	return nil
}

// CheckExtents is the part of CheckLaunch that regards the device alone: the extents of the grid and of the block.
func CheckExtents(info *Info, l *Launch) error {
	at := &info.Attributes
	over := func(v uint32, a Attribute) bool { return v == 0 || uint64(v) > uint64(at[a]) }
	switch {
	case over(l.Grid.X, MaxGridX) || over(l.Grid.Y, MaxGridY) || over(l.Grid.Z, MaxGridZ):
		return fmt.Errorf("launch %s: grid %v: %w", l.Function.Name(), l.Grid, InvalidValue)
	case over(l.Block.X, MaxBlockX) || over(l.Block.Y, MaxBlockY) || over(l.Block.Z, MaxBlockZ),
		l.Block.Count() > uint64(at[MaxThreadsPerBlock]):
		return fmt.Errorf("launch %s: block %v: %w", l.Function.Name(), l.Block, InvalidValue)
	}
	return nil
}

// Resources are the resources that a block needs.
type Resources struct {
	Threads   uint32
	Registers uint32 // of a thread
	Shared    uint32 // static and dynamic
}

// RegisterThreads returns how many threads of a block have room for so many registers of each, in whole warps.
func RegisterThreads(info *Info, registers uint32) uint32 {
	at := &info.Attributes
	most := uint32(at[MaxThreadsPerBlock])
	if registers == 0 {
		return most
	}
	warp := uint64(at[WarpSize])
	each := (uint64(registers)*warp + warpRegisters - 1) / warpRegisters * warpRegisters
	return uint32(min(uint64(at[MaxRegistersPerBlock])/each*warp, uint64(most)))
}

// warpRegisters is the unit in which warps get registers.
const warpRegisters = 256

// Occupancy is the number of such blocks that a multiprocessor holds at once: a pure function of the device's attributes.
func Occupancy(info *Info, r Resources) int {
	at := &info.Attributes
	if r.Threads == 0 || uint64(r.Threads) > uint64(at[MaxThreadsPerBlock]) {
		return 0
	}
	const unit = 128        // of shared memory
	const warpsTogether = 4 // warps get registers four at a time: a warp for each quarter of the multiprocessor
	warp := uint64(at[WarpSize])
	warps := (uint64(r.Threads) + warp - 1) / warp
	blocks := min(uint64(at[MaxBlocksPerMultiprocessor]), uint64(at[MaxThreadsPerMultiprocessor])/warp/warps)
	if r.Registers > 0 {
		each := (uint64(r.Registers)*warp + warpRegisters - 1) / warpRegisters * warpRegisters
		fit := uint64(at[MaxRegistersPerMultiprocessor]) / each / warpsTogether * warpsTogether
		if each*((warps+warpsTogether-1)/warpsTogether*warpsTogether) > uint64(at[MaxRegistersPerBlock]) {
			return 0
		}
		blocks = min(blocks, fit/warps)
	}
	shared := (uint64(r.Shared) + uint64(at[ReservedSharedPerBlock]) + unit - 1) / unit * unit
	if uint64(r.Shared) > uint64(at[MaxSharedPerBlockOptin]) {
		return 0
	}
	return int(min(blocks, uint64(at[MaxSharedPerMultiprocessor])/shared))
}
