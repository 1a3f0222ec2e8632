// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"errors"
	"math"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// errno values by which the kernel tells itself how to go on with a system call that was
// interrupted (include/linux/errno.h); programs never see them.
const (
	eRestartSys     = 512
	eRestartNoIntr  = 513
	eRestartNoHand  = 514
	eRestartBlock   = 516
	maxErrno        = 4095
	syscallInsnSize = 2
)

// makeCall has a process that is in a system call make another call, of at most two arguments, and go on from there.
func makeCall(pid int, number uintptr, args []uintptr) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // ptrace is bound to the thread that attached
		defer runtime.UnlockOSThread()
		err := unix.PtraceSeize(pid)
		if err != nil {
			err = os.NewSyscallError("ptrace seize", err)
		} else {
			err = errors.Join(injectCall(pid, number, args), os.NewSyscallError("ptrace detach", unix.PtraceDetach(pid)))
		}
		done <- err
	}()
	return <-done
}

func injectCall(pid int, number uintptr, args []uintptr) error {
	if err := unix.PtraceInterrupt(pid); err != nil {
		return os.NewSyscallError("ptrace interrupt", err)
	}
	if err := awaitStop(pid); err != nil {
		return err
	}
	var was unix.PtraceRegs
	if err := unix.PtraceGetRegs(pid, &was); err != nil {
		return os.NewSyscallError("ptrace getregs", err)
	}
	insn := make([]byte, syscallInsnSize)
	if _, err := unix.PtracePeekText(pid, uintptr(was.Rip-syscallInsnSize), insn); err != nil {
		return os.NewSyscallError("ptrace peek", err)
	}
	if was.Orig_rax == math.MaxUint64 || insn[0] != 0x0f || insn[1] != 0x05 {
		return errors.New("it is in no system call")
	}
	call := was
	call.Rip -= syscallInsnSize
	call.Rax, call.Orig_rax = uint64(number), math.MaxUint64
	call.Rdi, call.Rsi, call.Rdx, call.R10, call.R8 = 0, 0, 0, 0, 0
	for n, arg := range args {
		*[]*uint64{&call.Rdi, &call.Rsi}[n] = uint64(arg)
	}
	if err := unix.PtraceSetRegs(pid, &call); err != nil {
		return os.NewSyscallError("ptrace setregs", err)
	}
	err := unix.PtraceSingleStep(pid)
	if err == nil {
		err = awaitStop(pid)
	}
	if err == nil {
		err = unix.PtraceGetRegs(pid, &call)
	}
	if failed := -int64(call.Rax); err == nil && failed > 0 && failed <= maxErrno {
		err = unix.Errno(failed)
	}
	return errors.Join(err, os.NewSyscallError("ptrace setregs", restoreRegisters(pid, was)))
}

// restoreRegisters puts the registers back so that the interrupted call is begun again, as the
// kernel itself does (arch/x86/kernel/signal.c, arch_do_signal_or_restart).
func restoreRegisters(pid int, r unix.PtraceRegs) error {
	switch -int64(r.Rax) {
	case eRestartSys, eRestartNoIntr, eRestartNoHand:
		r.Rax = r.Orig_rax
		r.Rip -= syscallInsnSize
	case eRestartBlock:
		r.Rax = unix.SYS_RESTART_SYSCALL
		r.Rip -= syscallInsnSize
	}
	r.Orig_rax = math.MaxUint64
	return unix.PtraceSetRegs(pid, &r)
}

func awaitStop(pid int) error {
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(pid, &status, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return os.NewSyscallError("wait4", err)
		case !status.Stopped():
			return errors.New("it has ended")
		case status.StopSignal() != unix.SIGTRAP:
			// A signal is on its way and is delivered; the stop comes after the signal.
			if err := unix.PtraceCont(pid, int(status.StopSignal())); err != nil {
				return os.NewSyscallError("ptrace cont", err)
			}
		default:
			return nil
		}
	}
}
