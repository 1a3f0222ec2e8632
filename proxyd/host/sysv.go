// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"os"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// SysVNumbers is the feature that a process with CAP_CHECKPOINT_RESTORE chooses the numbers of System V objects, as criu
// does at a restore. Without the feature only uid 0 can do that. A distributor may have added the feature to an older
// kernel, so the release tells nothing.
var SysVNumbers = Feature{
	Name:  "numbers of System V objects",
	Probe: func() error { return chooseSysVNumber(1 << unix.CAP_CHECKPOINT_RESTORE) },
}

// nextSysVNumber sets the number of the next semaphore set in the IPC namespace of the process that writes to it. The
// kernel has the same rule for shared memory and message queues.
const nextSysVNumber = "/proc/sys/kernel/sem_next_id"

// ordinaryUser is any uid but 0.
const ordinaryUser = 65534

// chooseSysVNumber chooses the number of a semaphore set, in an IPC namespace of its own, as a thread that is not root
// and has only these capabilities, a set of bits.
func chooseSysVNumber(capabilities uint64) error {
	answer := make(chan error, 1)
	go func() {
		// The thread is unlocked when it has its rights and its namespace back. Else it ends with this goroutine, unless
		// it is the first thread of the process.
		runtime.LockOSThread()
		undo, err := limitThread(ordinaryUser, capabilities)
		if err == nil {
			err = os.WriteFile(nextSysVNumber, []byte("1"), 0)
		}
		if undo() == nil {
			runtime.UnlockOSThread()
		}
		answer <- err
	}()
	err := <-answer
	var denied *os.PathError
	if errors.As(err, &denied) && denied.Path == nextSysVNumber && errors.Is(err, os.ErrPermission) {
		return unsupportedByKernel("to choose the numbers of System V objects without being root", "Linux 5.17")
	}
	return err
}

// limitThread gives the calling thread another effective uid, these capabilities only, and an IPC namespace of its own.
// undo takes all of that back, also after an error. The real uid stays root's: no process of the other user can send
// the thread a signal.
func limitThread(uid int, capabilities uint64) (undo func() error, err error) {
	var undone []func() error
	undo = func() (err error) {
		for _, do := range slices.Backward(undone) {
			err = errors.Join(err, do())
		}
		return err
	}
	namespace, err := os.Open("/proc/thread-self/ns/ipc")
	if err != nil {
		return undo, err
	}
	undone = append(undone, namespace.Close)
	if err := unix.Unshare(unix.CLONE_NEWIPC); err != nil {
		return undo, os.NewSyscallError("unshare", err)
	}
	undone = append(undone, func() error { return unix.Setns(int(namespace.Fd()), unix.CLONE_NEWIPC) })
	if err := setEffectiveUID(uid); err != nil {
		return undo, err
	}
	// uid 0 gets its effective capabilities back from the kernel: they become the permitted capabilities.
	undone = append(undone, func() error { return setEffectiveUID(0) })
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return undo, os.NewSyscallError("capget", err)
	}
	for i := range sets {
		sets[i].Effective = uint32(capabilities >> (32 * i))
	}
	return undo, os.NewSyscallError("capset", unix.Capset(&header, &sets[0]))
}

// setEffectiveUID sets the effective uid of the calling thread. The functions of package unix would set it for all
// threads of the process.
func setEffectiveUID(uid int) error {
	unchanged := ^uintptr(0)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, unchanged, uintptr(uid), unchanged); errno != 0 {
		return os.NewSyscallError("setresuid", errno)
	}
	return nil
}

// checkSysV tells whether programs with System V objects are restored on this node.
func checkSysV(_ context.Context, n *node) Finding {
	return judgeSysV(SysVNumbers.Recheck(), n.cfg.RestoreAsRoot == "allow")
}

// judgeSysV is the finding for the probe's answer, and for what restore_as_root allows.
func judgeSysV(probe error, allowed bool) Finding {
	f := Finding{Name: "kernel: System V", Needs: "Linux 5.17 or newer, so that jobs with shared memory, semaphores or queues of System V are restored without root's rights"}
	switch {
	case probe == nil:
		return f.withOK("jobs with System V objects are restored as their user")
	case allowed:
		return f.withOK("jobs with System V objects are restored by root, as restore_as_root allows: " + probe.Error())
	}
	return f.withProblem(Warn, "jobs with System V objects are captured, and held when they are to go on here: "+probe.Error(),
		"boot Linux 5.17 or newer, or read docs/security.md and set restore_as_root: allow")
}
