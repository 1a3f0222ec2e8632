// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Descriptors of the process that becomes srun, after the user's 0, 1 and 2.
const (
	enterOrders = 3
	enterErrors = 4
	enterMounts = 5 // or /dev/null
	enterCall   = 6
)

// entering are the steps by which a process becomes srun, top to bottom, as root until "user". The call is read
// after that, and in the job's cgroup, so that the job pays for the memory of the call.
//
// A single thread does all of this, the only thread that execve leaves: srun gets the namespaces and the user of this
// thread.
var entering = []struct {
	name string
	do   func(*entrance) error
}{
	{"cgroup", (*entrance).joinCgroups},
	{"oom_score_adj", (*entrance).setOOM},
	{"mounts", (*entrance).joinMounts},
	{"user", (*entrance).becomeUser},
	{"runner", (*entrance).tieToRunner},
	{"call", (*entrance).readCall},
	{"folder", (*entrance).changeFolder},
	{"output files", (*entrance).cleanOutput},
	{"arguments", (*entrance).rewriteCall},
	{"notice", (*entrance).writeNotice},
	{"input", (*entrance).reportNoInput},
	{"exec", (*entrance).execSrun},
}

type entrance struct {
	o    order
	call *Call
	cmd  Command
}

// enterSrun returns only if srun could not be executed.
func enterSrun() int {
	runtime.LockOSThread()
	debug.SetGCPercent(-1)
	_ = unix.CloseRange(enterOrders, 1<<31-1, unix.CLOSE_RANGE_CLOEXEC)
	err := becomeUser()
	fmt.Fprint(os.NewFile(enterErrors, "errors"), err)
	return 1
}

func becomeUser() error {
	var e entrance
	if err := gob.NewDecoder(os.NewFile(enterOrders, "orders")).Decode(&e.o); err != nil {
		return err
	}
	for _, step := range entering {
		err := step.do(&e)
		switch {
		case errors.Is(err, ErrPMIx), errors.Is(err, ErrContainer), errors.Is(err, ErrHet), errors.Is(err, ErrTerminal): // the user's request is refused
			return err
		case err != nil:
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

func (e *entrance) joinCgroups() error {
	for _, dir := range e.o.Cgroups {
		if err := os.WriteFile(dir+"/cgroup.procs", []byte("0"), 0); err != nil {
			return err
		}
	}
	return nil
}

// setOOM: a daemon is often exempt from the OOM killer, a job's process never.
func (e *entrance) setOOM() error {
	if e.o.OwnOOM {
		return nil
	}
	return os.WriteFile("/proc/self/oom_score_adj", fmt.Append(nil, e.o.OOM), 0)
}

// joinMounts makes a copy of the capsule's mounts with three changes: /proc is the node's, for this process has no PID
// in the capsule's; /etc/hosts is the node's, so that names of nodes mean nodes, not capsules; and srun is the real
// srun.
func (e *entrance) joinMounts() error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil { // the umask too is this thread's from now on
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(enterMounts, &st); err != nil || st.Mode&unix.S_IFMT == unix.S_IFCHR {
		return err
	}
	targets := []string{"/proc", "/etc/hosts", e.o.Program}
	var trees []int
	for _, path := range targets {
		fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		trees = append(trees, fd)
	}
	if err := unix.Setns(enterMounts, unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return err
	}
	for i, path := range targets {
		if err := unix.MoveMount(trees[i], "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_SYMLINKS); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// becomeUser changes this thread only: the other threads end at execve. From root to another user
// the kernel takes all capabilities away.
func (e *entrance) becomeUser() error {
	var groups unsafe.Pointer
	if n := len(e.o.Groups); n > 0 {
		groups = unsafe.Pointer(&e.o.Groups[0])
	}
	for _, call := range []struct {
		name    string
		nr      uintptr
		a, b, c uintptr
	}{
		{"setgroups", unix.SYS_SETGROUPS, uintptr(len(e.o.Groups)), uintptr(groups), 0},
		{"setresgid", unix.SYS_SETRESGID, uintptr(e.o.GID), uintptr(e.o.GID), uintptr(e.o.GID)},
		{"setresuid", unix.SYS_SETRESUID, uintptr(e.o.UID), uintptr(e.o.UID), uintptr(e.o.UID)},
	} {
		if _, _, errno := unix.RawSyscall(call.nr, call.a, call.b, call.c); errno != 0 {
			return fmt.Errorf("%s: %w", call.name, errno)
		}
	}
	runtime.KeepAlive(e.o.Groups)
	return nil
}

// tieToRunner has the kernel end srun when the runner ends: without the runner no process would learn how srun ended.
// This step comes late because a change of user undoes it.
func (e *entrance) tieToRunner() error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	if os.Getppid() != e.o.Runner {
		return errors.New("is gone")
	}
	return nil
}

func (e *entrance) readCall() error {
	var err error
	if e.call, err = ReadCall(os.NewFile(enterCall, "call")); err != nil {
		return err
	}
	e.call.Env = append(e.call.Env, e.o.Env...)
	unix.Umask(e.call.Umask)
	return nil
}

func (e *entrance) changeFolder() error {
	if e.call.Dir == "" {
		return nil // the caller's folder is gone, and srun could not name that folder either
	}
	return unix.Chdir(e.call.Dir)
}

func (e *entrance) rewriteCall() error {
	var err error
	e.cmd, err = e.call.Rewrite(e.o.Rewriting, readList)
	if err != nil {
		return err
	}
	for i, content := range e.cmd.Files {
		fd, err := unix.MemfdCreate("hosts", unix.MFD_CLOEXEC)
		if err != nil {
			return err
		}
		if n, err := unix.Write(fd, content); err != nil || n < len(content) {
			return fmt.Errorf("file of nodes: %d of %d bytes: %w", n, len(content), err)
		}
		if err := unix.Dup3(fd, firstFile+i, 0); err != nil {
			return err
		}
	}
	return nil
}

// writeNotice writes to srun's standard error: a pipe to the runner, because the caller's may take nothing (a terminal
// that was hung up, a descriptor that is open for reading only).
func (e *entrance) writeNotice() error {
	_, err := os.Stderr.WriteString(e.cmd.Notice)
	return err
}

// noInput is the byte that the runner gets in place of an error text if srun does not read its standard input. No error
// text begins with a NUL.
const noInput = "\x00"

func (e *entrance) reportNoInput() error {
	if !e.cmd.NoInput {
		return nil
	}
	_, err := unix.Write(enterErrors, []byte(noInput))
	return err
}

// maxList bounds a file of nodes.
const maxList = 4 << 20

// readList reads a file of the user's. It does not wait for a file that is no regular file.
func readList(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > maxList {
		return nil, errors.New("no file, or too long")
	}
	b := make([]byte, st.Size)
	n := 0
	for n < len(b) {
		got, err := unix.Read(fd, b[n:])
		if err != nil {
			return nil, err
		}
		if got == 0 {
			break
		}
		n += got
	}
	return b[:n], nil
}

func (e *entrance) setLimits() error {
	for _, l := range e.o.Limits {
		if err := l.setLimit(); err != nil {
			return fmt.Errorf("limit %d: %w", l.Resource, err)
		}
	}
	return nil
}

// execSrun sets the limits just before execve: a limited address space may have no room for another allocation of ours.
func (e *entrance) execSrun() error {
	path, err := unix.BytePtrFromString(e.o.Program)
	if err != nil {
		return err
	}
	argv, err := syscall.SlicePtrFromStrings(e.cmd.Args)
	if err != nil {
		return err
	}
	envv, err := syscall.SlicePtrFromStrings(e.cmd.Env)
	if err != nil {
		return err
	}
	if err := e.setLimits(); err != nil {
		return err
	}
	_, _, errno := unix.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&envv[0])))
	return fmt.Errorf("%s: %w", e.o.Program, errno)
}
