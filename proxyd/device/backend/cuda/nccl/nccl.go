// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

// Package nccl is NCCL for Go: libnccl.so.2, opened at run time; the build needs no header of the vendor. The
// package does not use our spaces and streams: addresses are the device's addresses, and a stream is the driver's.
//
// Communicators are made without waiting, by libraries that can (2.14): Init, and later calls, may return while they
// are in progress, and State tells how far they are. Between calls of a communicator the caller waits until State is
// nil.
package nccl

// #cgo CFLAGS: -Wall -Wextra -Werror
// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "nccl.h"
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// Library is an open libnccl. A Library is never closed, because NCCL has threads of its own.
type Library struct{ table *C.struct_sing_nccl }

// Errors of this package.
var (
	// ErrNone is wrapped by the errors of Open: there is no library, or an unusable library.
	ErrNone = errors.New("no NCCL")
	// ErrInProgress is returned by State until the operations asked for are done.
	ErrInProgress = errors.New("in progress")
	// ErrAbsent is returned for a reduction with a factor if the library has no such reductions.
	ErrAbsent = errors.New("this NCCL has no reductions with factors")
)

// Error is a failure that the library reports.
type Error struct {
	Call   string
	Result int // NCCL's number
	Text   string
}

func (e *Error) Error() string { return e.Call + ": " + e.Text }

// Open opens the library at a path, or by its name.
func Open(path string) (*Library, error) {
	l := &Library{table: (*C.struct_sing_nccl)(C.calloc(1, C.sizeof_struct_sing_nccl))}
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var why [512]C.char
	if C.sing_nccl_open(l.table, name, &why[0], C.size_t(len(why))) != 0 {
		C.free(unsafe.Pointer(l.table))
		return nil, fmt.Errorf("%w: %s", ErrNone, C.GoString(&why[0]))
	}
	return l, nil
}

// checkResult returns a call's result as an error. A call in progress is no error: State tells how it ends.
func (l *Library) checkResult(call string, c *Comm, r C.ncclResult_t) error {
	switch r {
	case 0, C.SING_NCCL_IN_PROGRESS:
		return nil
	case C.SING_NCCL_ABSENT:
		return ErrAbsent
	}
	text := C.GoString(C.sing_nccl_error(l.table, r))
	if c != nil {
		if last := C.GoString(C.sing_nccl_last(l.table, c.comm)); last != "" {
			text += " (" + last + ")"
		}
	}
	return &Error{call, int(r), text}
}

// Version returns the library's version: 22803 is 2.28.3.
func (l *Library) Version() (int, error) {
	var v C.int
	r := C.sing_nccl_version(l.table, &v)
	return int(v), l.checkResult("ncclGetVersion", nil, r)
}

// NewID makes the identity of a communicator.
func (l *Library) NewID() (id backend.TeamID, err error) {
	r := C.sing_nccl_id(l.table, unsafe.Pointer(&id))
	return id, l.checkResult("ncclGetUniqueId", nil, r)
}

// Comm is a rank of a communicator. Its methods are called by one goroutine at a time; all but Abort and State in the
// context of its device.
type Comm struct {
	library *Library
	comm    C.ncclComm_t
	rank    int
	ranks   int
}

// Init begins to make a rank of a communicator, on the device of the thread's context.
func (l *Library) Init(id backend.TeamID, ranks, rank int) (*Comm, error) {
	c := &Comm{library: l, rank: rank, ranks: ranks}
	r := C.sing_nccl_init(l.table, &c.comm, C.int(ranks), unsafe.Pointer(&id), C.int(rank))
	if err := l.checkResult("ncclCommInitRank", nil, r); err != nil {
		return nil, err
	}
	return c, nil
}

// State returns nil if no operation is in progress, ErrInProgress, or the failure, here or at another rank.
func (c *Comm) State() error {
	r := C.sing_nccl_state(c.library.table, c.comm)
	if r == C.SING_NCCL_IN_PROGRESS {
		return ErrInProgress
	}
	return c.library.checkResult("NCCL", c, r)
}

// Finalize begins to end the communicator: issued operations are completed first.
func (c *Comm) Finalize() error {
	return c.library.checkResult("ncclCommFinalize", c, C.sing_nccl_finalize(c.library.table, c.comm))
}

// Destroy frees a communicator that was finalized. The Comm must not be used any more.
func (c *Comm) Destroy() error {
	return c.library.checkResult("ncclCommDestroy", nil, C.sing_nccl_destroy(c.library.table, c.comm))
}

// Abort ends the communicator at once, and its operations. The Comm must not be used any more.
func (c *Comm) Abort() error {
	return c.library.checkResult("ncclCommAbort", nil, C.sing_nccl_abort(c.library.table, c.comm))
}

// Op is an operation, of memory at addresses.
type Op struct {
	backend.TeamOp
	From, To backend.Addr // instead of TeamOp's spans
}

// Group issues operations as one group in a stream of the driver's. When the group is no longer in progress and forget
// is called, the reductions that were made for the group end.
func (c *Comm) Group(ops []Op, stream unsafe.Pointer) (forget func(), err error) {
	var pin runtime.Pinner
	defer pin.Unpin()
	list := make([]C.struct_sing_nccl_op, len(ops))
	made := make([]C.int, len(ops))
	for i, o := range ops {
		list[i] = C.struct_sing_nccl_op{
			kind: C.int(o.Kind), _type: C.int(o.Type), op: C.int(o.Reduction), root: C.int(o.Root), count: C.size_t(o.Count),
			src: C.uint64_t(o.From), dst: C.uint64_t(o.To),
		}
		if o.Scale != nil {
			pin.Pin(&o.Scale[0])
			list[i].scale = unsafe.Pointer(&o.Scale[0])
		}
	}
	r := C.sing_nccl_group(c.library.table, c.comm, unsafe.SliceData(list), C.size_t(len(list)), C.int(c.rank), C.int(c.ranks), stream, unsafe.SliceData(made))
	forget = func() { C.sing_nccl_forget(c.library.table, c.comm, unsafe.SliceData(made), C.size_t(len(made))) }
	return forget, c.library.checkResult("NCCL", c, r)
}
