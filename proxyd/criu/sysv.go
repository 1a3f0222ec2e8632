// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/host"
)

// usesSysV tells whether there is a System V object where the program looks for them: in the
// capsule's IPC namespace, or in a namespace of the program's own, which a program has since a
// restore with such objects.
//
// CRIU dumps an IPC namespace as a whole, and only a namespace that CRIU is not in itself. So criu joins the capsule's
// namespace if that is empty, and else stays out.
func usesSysV(p Program) (bool, error) {
	members, err := listMembers(p.Init)
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

// HasSysV tells whether i has an IPC namespace of its own.
func (i *Image) HasSysV() bool {
	return slices.ContainsFunc(i.Files, func(f File) bool { return strings.HasPrefix(f.Name, "ipcns-var-") })
}

// criuLibrary is loaded into criu that restores System V objects without being root: criu sets the
// limits of the new IPC namespace, which the kernel lets only uid 0 do (libsingshim/shim/ipc_limits.c). outside.go and
// terminals.go have its other uses.
const criuLibrary = "libsingshim-criu.so"

// findLibrary looks for criuLibrary beside this program, and where both are installed.
func findLibrary() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(self)
	for _, place := range []string{filepath.Join(dir, criuLibrary), filepath.Join(dir, "..", "lib", "singularity-slurm", criuLibrary)} {
		if st, err := os.Stat(place); err == nil && st.Mode().IsRegular() {
			return place, nil
		}
	}
	return "", &UnsupportedHost{Reason: criuLibrary + " is not installed", Advice: "install all of singularity-slurm on the node"}
}

// checkNumbering returns nil if this kernel lets criu choose the numbers of System V objects without being root. A
// function, so that tests have criu be root on a newer kernel, too.
var checkNumbering = host.SysVNumbers.Check

// RestoredByRoot tells whether criu is root when i is restored, for a program of another user. No
// other program of the capsule may begin to run meanwhile: that program could change the paths
// at which criu opens and makes files.
func (i *Image) RestoredByRoot() bool {
	return i.Program.UID != 0 && i.HasSysV() && checkNumbering() != nil
}

// checkAsRoot returns an *UnsupportedHost if criu would be root at a restore of i, and that is not allowed. Root opens
// what a link leads to that the user has put in a file's place. Where the kernel could not be asked, for want of memory or
// of descriptors, checkAsRoot returns that error: neither is root the way then, nor is the host unsuitable for good.
func (i *Image) checkAsRoot(allowed bool) error {
	if i.Program.UID == 0 || !i.HasSysV() {
		return nil
	}
	err := checkNumbering()
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, host.ErrUnsupported):
		return &Error{Op: "restore", PID: i.Program.PID, Err: err}
	case allowed:
		return nil
	}
	return &UnsupportedHost{
		Reason: fmt.Sprintf("the program has System V objects (shared memory, semaphores or queues): %v", err),
		Advice: "have it go on on a node with a newer kernel, or, after a look at docs/security.md, set restore_as_root: allow in proxyd.yaml",
	}
}

// anySysV tells whether an IPC namespace has System V objects.
func anySysV(path string) (found bool, err error) {
	ns, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer ns.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The thread has left its program's namespaces: the lock lets no other goroutine run on it, and it ends with this
		// goroutine.
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
