// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// RefusedError is valid PTX that this package does not execute.
type RefusedError struct {
	Module string
	Line   int
	Opcode string // "tex.2d.v4.f32.s32"
	Reason string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s, line %d: %s is not supported: %s", e.Module, e.Line, e.Opcode, e.Reason)
}

// LinkError is a set of modules that do not make a program.
type LinkError struct {
	Name string // of the symbol
	Msg  string
}

func (e *LinkError) Error() string { return fmt.Sprintf("link: %s: %s", e.Name, e.Msg) }

// LaunchError is a launch that was refused before a block ran.
type LaunchError struct {
	Kernel string
	Reason LaunchReason
	Msg    string
}

func (e *LaunchError) Error() string { return fmt.Sprintf("launch %s: %s", e.Kernel, e.Msg) }

// LaunchReason is the reason why a launch was refused.
type LaunchReason int

// The reasons for which a launch is refused.
const (
	BadConfiguration LaunchReason = iota + 1 // a dimension is zero or too large, or parameters do not fit
	OutOfResources                           // more threads or shared memory than the kernel or a block may have
	CooperativeTooLarge
)

// FaultKind is the kind of a kernel's fault.
type FaultKind int

// The kinds of faults.
const (
	IllegalAddress     FaultKind = iota + 1 // no memory is mapped there
	MisalignedAddress                       // not a multiple of the access's size
	Trapped                                 // trap or brkpt
	AssertFailed                            // __assertfail
	IllegalInstruction                      // a call to an address that is no function, or an operand out of its range
	StackOverflow                           // calls too deep, or alloca too large
	BarrierDeadlock                         // all threads wait, and no barrier can open
	InternalError                           // a mistake of this package
)

var faultNames = [...]string{
	IllegalAddress: "illegal address", MisalignedAddress: "misaligned address", Trapped: "trap",
	AssertFailed: "assertion failed", IllegalInstruction: "illegal instruction",
	StackOverflow: "stack overflow", BarrierDeadlock: "deadlock at a barrier",
	InternalError: "internal error of the software GPU",
}

func (k FaultKind) String() string { return faultNames[k] }

// Fault ends a launch. Memory that the kernel wrote before stays written.
type Fault struct {
	Kind   FaultKind
	Kernel string
	Func   string // where the thread was; the kernel itself or a called function
	Line   int    // of the PTX text of that function's module
	Block  Dim3
	Thread Dim3
	Addr   uint64 // of an access, else 0
	Msg    string // more, for a reader
	// Of AssertFailed: the assertions of all threads of the warp that came to the call together, Thread's first.
	Assertions []FailedAssertion
}

// FailedAssertion is the assertion of a thread, as a GPU prints it but for the thread's place.
type FailedAssertion struct {
	Thread Dim3
	Text   string
}

func (f *Fault) Error() string {
	s := fmt.Sprintf("kernel %s: block (%d,%d,%d) thread (%d,%d,%d): %s line %d: %s",
		f.Kernel, f.Block.X, f.Block.Y, f.Block.Z, f.Thread.X, f.Thread.Y, f.Thread.Z, f.Func, f.Line, f.Kind)
	if f.Kind == IllegalAddress || f.Kind == MisalignedAddress {
		s += fmt.Sprintf(" %#x", f.Addr)
	}
	if f.Msg != "" {
		s += ": " + f.Msg
	}
	return s
}

// raiseFault ends the launch. raiseFault does not return.
func (w *warp) raiseFault(kind FaultKind, in *inst, lane int, addr uint64, msg string) {
	panic(describeFault(w, kind, in, lane, addr, msg))
}

// describeFault returns the fault of one of a warp's threads.
func describeFault(w *warp, kind FaultKind, in *inst, lane int, addr uint64, msg string) *Fault {
	b := w.block
	f := &Fault{
		Kind: kind, Kernel: b.run.kernel.Name, Line: int(in.line), Func: b.run.kernel.Name,
		Block: b.pos, Thread: b.run.cfg.Block.positionAt(uint64(w.id*warpSize + lane)), Addr: addr, Msg: msg,
	}
	if w.cur != nil {
		f.Func = w.cur.frame.code.fn.Name
	}
	return f
}

// recoverFault turns a fault's panic into an error.
func recoverFault(err *error) {
	switch p := recover().(type) {
	case nil:
	case *Fault:
		*err = p
	case launchAbort:
		*err = p.err
	case runtime.Error:
		// A mistake of this package ends the launch, and not the process that holds the state of the device.
		*err = &Fault{Kind: InternalError, Msg: fmt.Sprintf("%v\n%s", p, debug.Stack())}
	default:
		panic(p)
	}
}

// launchAbort carries an error that ends a launch out of the interpreter.
type launchAbort struct{ err error }
