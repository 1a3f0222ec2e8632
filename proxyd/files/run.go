// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	joinArg    = "join" // descriptor 3 is the mount namespace to work in
	namespace  = 3
	helperName = "singularity-files"
)

// Run is the main function of the helper. A program with Arg as its first argument calls Run with its other arguments,
// and exits with the status that Run returns.
func Run(args []string) int {
	p := newPipe(os.Stdin, os.Stdout)
	err := runOrder(p, args)
	if err != nil {
		err = errors.Join(p.sendFailure(err))
	}
	if err := errors.Join(err, p.flushFrames()); err != nil {
		return 1
	}
	return 0
}

func runOrder(p *pipe, args []string) error {
	if len(args) > 0 && args[0] == joinArg {
		return fmt.Errorf("join the capsule's mounts: %w", joinMounts())
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	b, err := p.receiveMessage(frameOrder)
	if err != nil {
		return err
	}
	var o order
	if err := json.Unmarshal(b, &o); err != nil {
		return err
	}
	if err := o.becomeUser(); err != nil {
		return fmt.Errorf("become user %d: %w", o.UID, err)
	}
	if b, err = p.receiveMessage(frameState); err != nil {
		return err
	}
	s := &State{}
	if err := json.Unmarshal(b, s); err != nil {
		return err
	}
	if b, err = p.receiveMessage(frameEntries); err != nil {
		return err
	}
	w := newWorker(p, o, s)
	for len(b) > 0 {
		r := parseRecord(b)
		if r.size == 0 {
			break
		}
		if r.entry.isValid() {
			w.entries = append(w.entries, r.entry)
		}
		b = b[r.size:]
	}
	if o.PutBack {
		return w.putBack()
	}
	return w.recordState()
}

// joinMounts makes this program begin again in the capsule's mount namespace. A Go program cannot
// change its namespace: a namespace belongs to a thread, and there are several threads. So a
// single thread enters, and executes; the kernel ends the other threads.
func joinMounts() error {
	runtime.LockOSThread()
	// The capsule's /proc does not show this process. Its own program is reached through a folder of the node's, which
	// stays open as the working directory.
	self, err := unix.Open("/proc/self/exe", unix.O_PATH, 0) // not closed on exec: see below
	if err != nil {
		return err
	}
	dir, err := unix.Open("/proc/self/fd", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	if err := unix.Setns(namespace, unix.CLONE_NEWNS); err != nil {
		return err
	}
	unix.Close(namespace)
	if err := unix.Fchdir(dir); err != nil {
		return err
	}
	return syscall.Exec(strconv.Itoa(self), []string{helperName, Arg}, nil)
}

// becomeUser gives up root's rights for the user's. The program has executed itself before: the user can trace a
// process that executes a program as the user.
func (o order) becomeUser() error {
	unix.Umask(0)
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return nil // a test without root: the process is the user already
	}
	groups := make([]int, len(o.Groups))
	for i, g := range o.Groups {
		groups[i] = int(g)
	}
	if err := syscall.Setgroups(groups); err != nil {
		return err
	}
	if err := syscall.Setresgid(int(o.GID), int(o.GID), int(o.GID)); err != nil {
		return err
	}
	return syscall.Setresuid(int(o.UID), int(o.UID), int(o.UID))
}
