// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// usesSysV tells whether there is a System V object where the program looks for them: in the
// capsule's IPC namespace, or in a namespace of the program's own, which a program has since a
// restore with such objects.
//
// CRIU dumps an IPC namespace as a whole, and only a namespace that CRIU is not in itself. So criu
// joins the capsule's if that is empty, and else stays out.
func usesSysV(p Program) (bool, error) {
	members, err := membersOf(p.Init)
	if err != nil {
		return false, err
	}
	root, ok := members[p.PID]
	if !ok {
		return false, fmt.Errorf("there is no process %d in the capsule", p.PID)
	}
	path := func(pid int) string { return fmt.Sprintf("/proc/%d/ns/ipc", pid) }
	own, err := os.Readlink(path(root.host))
	if err != nil {
		return false, err
	}
	capsules, err := os.Readlink(path(p.Init))
	if err != nil {
		return false, err
	}
	if own != capsules {
		return true, nil
	}
	return anySysV(path(p.Init))
}

// hasSysV says whether i has an IPC namespace of its own. CRIU then sets the namespace's limits,
// which the kernel lets only uid 0 do (ipc/ipc_sysctl.c, ipc_permissions).
func (i *Image) hasSysV() bool {
	return slices.ContainsFunc(i.Files, func(f File) bool { return strings.HasPrefix(f.Name, "ipcns-var-") })
}

// RestoredByRoot says whether criu is root when i is restored, for a program of another user. No
// other program of the capsule may begin to run meanwhile: that program could change the paths
// at which criu opens and makes files.
func (i *Image) RestoredByRoot() bool { return i.Program.UID != 0 && i.hasSysV() }

// anySysV looks into an IPC namespace.
func anySysV(path string) (found bool, err error) {
	ns, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer ns.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		// A thread that has left its program's namespaces runs nothing else: the thread ends with
		// this goroutine.
		runtime.LockOSThread()
		if err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWIPC); err != nil {
			err = os.NewSyscallError("setns", err)
			return
		}
		for _, kind := range []string{"shm", "sem", "msg"} {
			var b []byte
			b, err = os.ReadFile("/proc/sysvipc/" + kind)
			if err != nil {
				return
			}
			if bytes.Count(b, []byte("\n")) > 1 { // the first line is the heading
				found = true
				return
			}
		}
	}()
	<-done
	return found, err
}
