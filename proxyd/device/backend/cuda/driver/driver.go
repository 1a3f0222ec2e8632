// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

// Package driver is CUDA's driver for Go: libcuda.so.1, opened at run time. The calls and their types come from the
// table of calls, libsingshim/api; the build needs no header of the vendor. This package and package nccl have all C of
// the backend. The package does not use our spaces and streams.
//
// Each method is a single call. Calls that depend on a context name the context, and may be made from any thread. An
// error wraps the driver's number, or is an AbsentError for a call that this driver does not have.
package driver

// #cgo CFLAGS: -Wall -Wextra -Werror -Wno-unused-parameter
// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "driver.h"
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// Driver is an open driver.
type Driver struct {
	table   *C.struct_sing_driver
	library unsafe.Pointer
}

// ErrNoDriver is wrapped by the errors of Open: there is no driver, or an unusable driver.
var ErrNoDriver = errors.New("no CUDA driver")

// AbsentError is a call that the driver does not have: the feature that needs the call is refused by its name.
type AbsentError struct{ Call string }

func (e *AbsentError) Error() string { return "this driver has no " + e.Call }

// Unwrap returns NotSupported.
func (e *AbsentError) Unwrap() error { return backend.NotSupported }

// Open opens the library at a path, or by its name.
func Open(path string) (*Driver, error) {
	d := &Driver{table: (*C.struct_sing_driver)(C.calloc(1, C.sizeof_struct_sing_driver))}
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var why [512]C.char
	if C.sing_open(d.table, &d.library, name, &why[0], C.size_t(len(why))) != 0 {
		C.free(unsafe.Pointer(d.table))
		return nil, fmt.Errorf("%w: %s", ErrNoDriver, C.GoString(&why[0]))
	}
	return d, nil
}

// Close closes the library. No object of the library may be used any more.
func (d *Driver) Close() {
	C.sing_close(d.library)
	C.free(unsafe.Pointer(d.table))
}

// checkResult returns a call's result as an error.
func checkResult(call string, r C.CUresult) error {
	switch r {
	case 0:
		return nil
	case C.SING_ABSENT:
		return &AbsentError{call}
	}
	return fmt.Errorf("%s: %w", call, backend.Result(r))
}

// Device is a device by the driver's number.
type Device int32

// The driver's handles. The zero value is no handle.
type (
	// Context is a context.
	Context struct{ p C.CUcontext }
	// Stream is a stream.
	Stream struct{ p C.CUstream }
	// Event is an event.
	Event struct{ p C.CUevent }
	// Module is a module.
	Module struct{ p C.CUmodule }
	// Function is a kernel.
	Function struct{ p C.CUfunction }
	// Memory is physical memory.
	Memory uint64
)

// Pointer is the stream in the form of the vendor's other libraries.
func (s Stream) Pointer() unsafe.Pointer { return unsafe.Pointer(s.p) }

// Init is cuInit.
func (d *Driver) Init() error { return checkResult("cuInit", C.sing_cuInit(d.table, nil, 0)) }

// Version returns the driver's version: 12040 is 12.4.
func (d *Driver) Version() (int, error) {
	var v C.int
	r := C.sing_cuDriverGetVersion(d.table, nil, &v)
	return int(v), checkResult("cuDriverGetVersion", r)
}

// Devices lists all devices.
func (d *Driver) Devices() ([]Device, error) {
	var n C.int
	if err := checkResult("cuDeviceGetCount", C.sing_cuDeviceGetCount(d.table, nil, &n)); err != nil {
		return nil, err
	}
	out := make([]Device, n)
	for i := range out {
		var dev C.CUdevice
		if err := checkResult("cuDeviceGet", C.sing_cuDeviceGet(d.table, nil, &dev, C.int(i))); err != nil {
			return nil, err
		}
		out[i] = Device(dev)
	}
	return out, nil
}

// Name returns a device's name.
func (d *Driver) Name(dev Device) (string, error) {
	var b [256]C.char
	r := C.sing_cuDeviceGetName(d.table, nil, &b[0], C.int(len(b)), C.CUdevice(dev))
	return C.GoString(&b[0]), checkResult("cuDeviceGetName", r)
}

// UUID returns a device's UUID, by the newer call if available: of a part of a device, the part's UUID.
func (d *Driver) UUID(dev Device) ([16]byte, error) {
	var id C.CUuuid
	call, r := "cuDeviceGetUuid_v2", C.sing_cuDeviceGetUuid_v2(d.table, nil, &id, C.CUdevice(dev))
	if r == C.SING_ABSENT {
		call, r = "cuDeviceGetUuid", C.sing_cuDeviceGetUuid(d.table, nil, &id, C.CUdevice(dev))
	}
	return *(*[16]byte)(unsafe.Pointer(&id)), checkResult(call, r)
}

// TotalMemory returns a device's memory, in bytes.
func (d *Driver) TotalMemory(dev Device) (uint64, error) {
	var n C.size_t
	r := C.sing_cuDeviceTotalMem_v2(d.table, nil, &n, C.CUdevice(dev))
	return uint64(n), checkResult("cuDeviceTotalMem_v2", r)
}

// Attribute returns an attribute of a device.
func (d *Driver) Attribute(dev Device, a backend.Attribute) (int32, error) {
	var v C.int
	r := C.sing_cuDeviceGetAttribute(d.table, nil, &v, C.int(a), C.CUdevice(dev))
	return int32(v), checkResult("cuDeviceGetAttribute", r)
}

// CanAccessPeer tells whether a device can reach another one's memory.
func (d *Driver) CanAccessPeer(dev, peer Device) (bool, error) {
	var yes C.int
	r := C.sing_cuDeviceCanAccessPeer(d.table, nil, &yes, C.CUdevice(dev), C.CUdevice(peer))
	return yes != 0, checkResult("cuDeviceCanAccessPeer", r)
}

// NewContext makes a context. The driver reserves addresses for its owner: see reserve.c.
func (d *Driver) NewContext(dev Device, owner uint64) (Context, error) {
	var c Context
	r := C.sing_new_context(d.table, &c.p, C.CUdevice(dev), C.uint64_t(owner))
	C.sing_forget_contexts() // c is current now
	return c, checkResult("cuCtxCreate", r)
}

// ProcessorGroups is how the multiprocessors of a context's device are grouped, n pairs of them, in two orders.
func (d *Driver) ProcessorGroups(c Context, n int) (groups, order []byte, err error) {
	groups, order = make([]byte, n+1), make([]byte, n+1)
	r := C.sing_groups(d.table, c.p, (*C.uchar)(&groups[0]), (*C.uchar)(&order[0]), C.size_t(n))
	return groups[:n], order[:n], checkResult("cuGetExportTable", r)
}

// DestroyContext ends a context and all its contents.
func (d *Driver) DestroyContext(c Context) error {
	r := C.sing_cuCtxDestroy_v2(d.table, nil, c.p)
	C.sing_forget_contexts()
	return checkResult("cuCtxDestroy_v2", r)
}

// Primary is a device's primary context, which the vendor's runtime and its users work in. Each is to be given back by
// Unprimary.
func (d *Driver) Primary(dev Device) (Context, error) {
	var c Context
	r := C.sing_cuDevicePrimaryCtxRetain(d.table, nil, &c.p, C.CUdevice(dev))
	return c, checkResult("cuDevicePrimaryCtxRetain", r)
}

// Unprimary gives a primary context back. The last call ends the context.
func (d *Driver) Unprimary(dev Device) error {
	r := C.sing_cuDevicePrimaryCtxRelease_v2(d.table, nil, C.CUdevice(dev))
	C.sing_forget_contexts()
	return checkResult("cuDevicePrimaryCtxRelease_v2", r)
}

// Within calls f in a thread that has a context, for another library of the vendor's. f may leave the thread with
// another context.
func (d *Driver) Within(c Context, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := checkResult("cuCtxSetCurrent", C.sing_enter(d.table, c.p)); err != nil {
		return err
	}
	defer C.sing_forget_mine()
	return f()
}

// Limit is a limit of a context, and SetLimit sets one.
func (d *Driver) Limit(c Context, l backend.Limit) (uint64, error) {
	var v C.size_t
	r := C.sing_cuCtxGetLimit(d.table, c.p, &v, C.int(l))
	return uint64(v), checkResult("cuCtxGetLimit", r)
}

// SetLimit is Limit's reverse.
func (d *Driver) SetLimit(c Context, l backend.Limit, v uint64) error {
	return checkResult("cuCtxSetLimit", C.sing_cuCtxSetLimit(d.table, c.p, C.int(l), C.size_t(v)))
}
