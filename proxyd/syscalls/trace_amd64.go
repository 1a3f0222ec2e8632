// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package syscalls

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

const (
	instructionSize = 2 // of the instruction syscall
	nativeCode      = 0x33
	eventStop       = 128 // PTRACE_EVENT_STOP
	stopsWithin     = time.Second
)

// tracesWithin bounds the work of a tracer. A program can make an access to its memory wait as long as it likes, by
// userfaultfd(2) or a file system of its own.
const tracesWithin = 20 * time.Second

// runTracer runs f on a thread of its own, because for the kernel the tracer is a thread, and returns f's result. The
// thread ends with f; then the kernel releases all threads that it still traces.
func runTracer[T any](f func() T) (result T, err error) {
	done := make(chan T, 1)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	select {
	case result = <-done:
		return result, nil
	case <-time.After(tracesWithin):
		return result, errors.New("the program does not let its memory be read or written")
	}
}

// traceThread calls f while a frozen thread stands in ptrace. A thread of a frozen cgroup v2 gets
// there without being thawed (kernel/signal.c, get_signal).
func traceThread(tid int, f func(*unix.PtraceRegs) error) error {
	if err := unix.PtraceSeize(tid); err != nil {
		return fmt.Errorf("thread %d: %w", tid, os.NewSyscallError("ptrace seize", err))
	}
	err := os.NewSyscallError("ptrace interrupt", unix.PtraceInterrupt(tid))
	if err == nil {
		err = awaitStop(tid)
	}
	if err != nil {
		return fmt.Errorf("thread %d: %w", tid, err)
	}
	var registers unix.PtraceRegs
	err = os.NewSyscallError("ptrace getregs", unix.PtraceGetRegs(tid, &registers))
	if err == nil {
		err = f(&registers)
	}
	if err = errors.Join(err, os.NewSyscallError("ptrace detach", unix.PtraceDetach(tid))); err != nil {
		return fmt.Errorf("thread %d: %w", tid, err)
	}
	return nil
}

// awaitStop waits until a thread stands in ptrace. A thread that does not handle signals, because it waits for a disk,
// never stops: so the wait is bounded.
func awaitStop(tid int) error {
	pause := 10 * time.Microsecond
	for end := time.Now().Add(stopsWithin); ; time.Sleep(pause) { //nolint:forbidigo // a wait with WNOHANG is the only one that can be bounded
		var status unix.WaitStatus
		got, err := unix.Wait4(tid, &status, unix.WALL|unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return os.NewSyscallError("wait4", err)
		case got == 0 && time.Now().After(end):
			return errors.New("it does not stop")
		case got == 0:
			pause = min(2*pause, 10*time.Millisecond)
		case !status.Stopped():
			return errors.New("it has ended")
		case uint32(status)>>16 != eventStop:
			return errors.New("a signal stops it")
		default:
			return nil
		}
	}
}

// readCall returns the call in which a thread was stopped.
func readCall(tid int, r *unix.PtraceRegs) (c call, ok bool) {
	if r.Cs != nativeCode || int64(r.Orig_rax) < 0 {
		return c, false
	}
	instruction := make([]byte, instructionSize)
	n, err := unix.PtracePeekText(tid, uintptr(r.Rip-instructionSize), instruction)
	if err != nil || n != instructionSize || instruction[0] != 0x0f || instruction[1] != 0x05 {
		return c, false
	}
	return call{int64(r.Orig_rax), int64(r.Rax), [6]uint64{r.Rdi, r.Rsi, r.Rdx, r.R10, r.R8, r.R9}}, true
}

// applyRemedy changes the registers r of a thread that stands behind its call.
func applyRemedy(r *unix.PtraceRegs, with remedy) {
	r.Orig_rax = math.MaxUint64 // the kernel is not to continue the call
	if with.again == nil {
		r.Rax = uint64(with.result)
		return
	}
	a := with.again.arguments
	r.Rip -= instructionSize
	r.Rax = uint64(with.again.number)
	r.Rdi, r.Rsi, r.Rdx, r.R10, r.R8, r.R9 = a[0], a[1], a[2], a[3], a[4], a[5]
}

// A time in a process's memory is two words.
const timeSize = 16

// writeLeft writes the time that is left to the memory where the caller of a sleep, or the repeated call, reads it. It
// has the process's own rights to its memory.
func (r remedy) writeLeft(tid int, left time.Duration) error {
	unit := time.Nanosecond
	if r.inMicros {
		unit = time.Microsecond
	}
	b := binary.NativeEndian.AppendUint64(nil, uint64(left/time.Second))
	b = binary.NativeEndian.AppendUint64(b, uint64(left%time.Second/unit))
	local := []unix.Iovec{{Base: &b[0], Len: timeSize}}
	n, err := unix.ProcessVMWritev(tid, local, []unix.RemoteIovec{{Base: uintptr(r.left), Len: timeSize}}, 0)
	if err == nil && n != timeSize {
		err = unix.EFAULT
	}
	return os.NewSyscallError("process_vm_writev", err)
}

// reckonDeadline sets the deadline of a call whose memory holds the time that was left when the thread was stopped, a
// time ago.
func (r *remedy) reckonDeadline(tid int, ago time.Duration) error {
	b := make([]byte, timeSize)
	local := []unix.Iovec{{Base: &b[0], Len: timeSize}}
	n, err := unix.ProcessVMReadv(tid, local, []unix.RemoteIovec{{Base: uintptr(r.left), Len: timeSize}}, 0)
	if err == nil && n != timeSize {
		err = unix.EFAULT
	}
	if err != nil {
		return os.NewSyscallError("process_vm_readv", err)
	}
	now, err := readClock(r.clock)
	if err != nil {
		return err
	}
	unit := int64(time.Nanosecond)
	if r.inMicros {
		unit = int64(time.Microsecond)
	}
	seconds, fraction := int64(binary.NativeEndian.Uint64(b)), int64(binary.NativeEndian.Uint64(b[8:]))
	if seconds < 0 || seconds > longestTimeout || fraction < 0 || fraction > int64(time.Second) {
		r.timed = false // no timeout, or one that the call refuses
		return nil
	}
	r.deadline = now - int64(ago) + seconds*int64(time.Second) + fraction*unit
	return nil
}

// longestTimeout is some 30 years in seconds: beyond that, the sum with a clock may overflow.
const longestTimeout = 1 << 30
