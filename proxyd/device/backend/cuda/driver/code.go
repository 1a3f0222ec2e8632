// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package driver

// #include <stdlib.h>
// #include "driver.h"
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// logSize limits the text of the just-in-time compiler.
const logSize = 64 << 10

// compiler has the options of the just-in-time compiler, in C's memory, because the linker reads and writes
// there later.
type compiler struct{ c *C.struct_sing_jit }

func newCompiler(cfg backend.LoadConfig) *compiler {
	j := &compiler{(*C.struct_sing_jit)(C.calloc(1, C.sizeof_struct_sing_jit))}
	j.c.max_registers, j.c.ninfo, j.c.nerrors = C.uint(cfg.MaxRegisters), logSize, logSize
	j.c.info, j.c.errors = (*C.char)(C.calloc(1, logSize)), (*C.char)(C.calloc(1, logSize))
	if cfg.Verbose {
		j.c.verbose = 1
	}
	return j
}

// takeLog returns the compiler's text, and frees the compiler.
func (j *compiler) takeLog() backend.Log {
	defer C.free(unsafe.Pointer(j.c))
	defer C.free(unsafe.Pointer(j.c.info))
	defer C.free(unsafe.Pointer(j.c.errors))
	return backend.Log{Info: C.GoString(j.c.info), Error: C.GoString(j.c.errors)}
}

// Load loads an image, which the driver reads beyond its end if incomplete, into a context of that owner.
func (d *Driver) Load(c Context, image []byte, cfg backend.LoadConfig, owner uint64) (Module, backend.Log, error) {
	j := newCompiler(cfg)
	var m Module
	r := C.sing_load(d.table, c.p, &m.p, unsafe.Pointer(unsafe.SliceData(image)), j.c, C.uint64_t(owner))
	return m, j.takeLog(), checkResult("cuModuleLoadDataEx", r)
}

// Unload ends a module.
func (d *Driver) Unload(c Context, m Module) error {
	return checkResult("cuModuleUnload", C.sing_cuModuleUnload(d.table, c.p, m.p))
}

// Function finds a kernel.
func (d *Driver) Function(c Context, m Module, name string) (Function, error) {
	n := C.CString(name)
	defer C.free(unsafe.Pointer(n))
	var f Function
	r := C.sing_cuModuleGetFunction(d.table, c.p, &f.p, m.p, n)
	return f, checkResult("cuModuleGetFunction", r)
}

// FirstFunction returns a kernel of a module, and does not have the driver load the kernel; the zero value if the module
// has no kernel.
func (d *Driver) FirstFunction(c Context, m Module) (Function, error) {
	var f Function
	r := C.sing_cuModuleEnumerateFunctions(d.table, c.p, &f.p, 1, m.p)
	return f, checkResult("cuModuleEnumerateFunctions", r)
}

// IsLoaded tells whether the driver has loaded a kernel.
func (d *Driver) IsLoaded(c Context, f Function) (bool, error) {
	var state C.int
	r := C.sing_cuFuncIsLoaded(d.table, c.p, &state, f.p)
	return state != 0, checkResult("cuFuncIsLoaded", r)
}

// Global finds a variable.
func (d *Driver) Global(c Context, m Module, name string) (backend.Addr, uint64, error) {
	n := C.CString(name)
	defer C.free(unsafe.Pointer(n))
	var at C.CUdeviceptr
	var size C.size_t
	r := C.sing_cuModuleGetGlobal_v2(d.table, c.p, &at, &size, m.p, n)
	return backend.Addr(at), uint64(size), checkResult("cuModuleGetGlobal_v2", r)
}

// FunctionAttribute returns an attribute of a kernel, and SetFunctionAttribute sets it.
func (d *Driver) FunctionAttribute(c Context, f Function, a backend.FunctionAttribute) (int32, error) {
	var v C.int
	r := C.sing_cuFuncGetAttribute(d.table, c.p, &v, C.int(a), f.p)
	return int32(v), checkResult("cuFuncGetAttribute", r)
}

// SetFunctionAttribute sets an attribute of a kernel.
func (d *Driver) SetFunctionAttribute(c Context, f Function, a backend.FunctionAttribute, v int32) error {
	return checkResult("cuFuncSetAttribute", C.sing_cuFuncSetAttribute(d.table, c.p, f.p, C.int(a), C.int(v)))
}

// Param returns the place of a kernel's i-th parameter, or InvalidValue if there are fewer.
func (d *Driver) Param(c Context, f Function, i int) (backend.Param, error) {
	var at, n C.size_t
	r := C.sing_cuFuncGetParamInfo(d.table, c.p, f.p, C.size_t(i), &at, &n)
	return backend.Param{Offset: uint32(at), Size: uint32(n)}, checkResult("cuFuncGetParamInfo", r)
}

// Launch is a launch of a kernel with parameters that begin at Offsets in Params.
type Launch struct {
	Function    Function
	Grid, Block backend.Dim
	Shared      uint32
	Cooperative bool
	Attributes  []backend.LaunchAttribute
	Params      []byte
	Offsets     []uint32
}

// cStruct returns the launch for C. It is valid for as long as pin holds its memory.
func (l *Launch) cStruct(pin *runtime.Pinner) C.struct_sing_launch {
	p := C.struct_sing_launch{
		function: l.Function.p, shared: C.uint(l.Shared), n: C.size_t(len(l.Offsets)),
		grid:  [3]C.uint{C.uint(l.Grid.X), C.uint(l.Grid.Y), C.uint(l.Grid.Z)},
		block: [3]C.uint{C.uint(l.Block.X), C.uint(l.Block.Y), C.uint(l.Block.Z)},
	}
	if l.Cooperative {
		p.cooperative = 1
	}
	if n := len(l.Attributes); n > 0 {
		list := make([]C.struct_sing_attribute, n)
		for i, a := range l.Attributes {
			list[i].id = C.int(a.ID)
			for w, v := range a.Value {
				list[i].value.word[w] = C.ulonglong(v)
			}
		}
		pin.Pin(&list[0])
		p.attributes, p.k = &list[0], C.uint(n)
	}
	if len(l.Offsets) > 0 {
		pin.Pin(&l.Params[0])
		pin.Pin(&l.Offsets[0])
		p.params, p.offsets = (*C.uchar)(&l.Params[0]), (*C.uint)(&l.Offsets[0])
	}
	return p
}

// Launch launches a kernel.
func (d *Driver) Launch(c Context, s Stream, l *Launch) error {
	if len(l.Offsets) > C.SING_MAX_PARAMS {
		return fmt.Errorf("%d parameters: %w", len(l.Offsets), backend.InvalidValue)
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	p := l.cStruct(&pin)
	call := "cuLaunchKernel"
	switch {
	case len(l.Attributes) > 0:
		call = "cuLaunchKernelEx"
	case l.Cooperative:
		call = "cuLaunchCooperativeKernel"
	}
	return checkResult(call, C.sing_launch(d.table, c.p, &p, s.p))
}

// Clusters finds the sizes and numbers of clusters that fit on a device.
type Clusters struct{ *Driver }

// Active returns how many clusters of a launch run at once.
func (d Clusters) Active(c Context, l *Launch) (int, error) {
	var pin runtime.Pinner
	defer pin.Unpin()
	p := l.cStruct(&pin)
	var n C.int
	r := C.sing_active_clusters(d.table, c.p, &n, &p)
	return int(n), checkResult("cuOccupancyMaxActiveClusters", r)
}

// Largest returns how many blocks a cluster of such a launch may have.
func (d Clusters) Largest(c Context, l *Launch) (int, error) {
	var pin runtime.Pinner
	defer pin.Unpin()
	p := l.cStruct(&pin)
	var n C.int
	r := C.sing_largest_cluster(d.table, c.p, &n, &p)
	return int(n), checkResult("cuOccupancyMaxPotentialClusterSize", r)
}

// Part is an image for Link.
type Part struct {
	Kind PartKind
	Data []byte
}

// PartKind is a form of code, as the driver's linker numbers them.
type PartKind int32

// The kinds.
const (
	Cubin PartKind = iota
	PTX
	Fatbin
)

// Link makes a single image of several.
func (d *Driver) Link(c Context, parts []Part, cfg backend.LoadConfig) (image []byte, log backend.Log, err error) {
	j := newCompiler(cfg)
	defer func() { log = j.takeLog() }()
	var state C.CUlinkState
	if err := checkResult("cuLinkCreate_v2", C.sing_link_create(d.table, c.p, &state, j.c)); err != nil {
		return nil, log, err
	}
	defer C.sing_cuLinkDestroy(d.table, c.p, state)
	for _, p := range parts {
		r := C.sing_cuLinkAddData_v2(d.table, c.p, state, C.int(p.Kind), unsafe.Pointer(unsafe.SliceData(p.Data)), C.size_t(len(p.Data)), nil, 0, nil, nil)
		if err := checkResult("cuLinkAddData_v2", r); err != nil {
			return nil, log, err
		}
	}
	var out unsafe.Pointer
	var n C.size_t
	if err := checkResult("cuLinkComplete", C.sing_cuLinkComplete(d.table, c.p, state, &out, &n)); err != nil {
		return nil, log, err
	}
	return C.GoBytes(out, C.int(n)), log, nil
}
