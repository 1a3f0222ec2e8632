// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A process that lost its parent is a child of the program's root, if the root is its subreaper, but of a session in
// which the root never was. CRIU makes the process in that session: as the child of a helper that ends, so that the
// process falls to the root. But CRIU takes the root for PID 1, and makes the root a subreaper only at the very end
// (criu/pstree.c, prepare_pstree_ids; criu/pie/restorer.c, restore_child_subreaper): the process would fall to the
// capsule's init, and the root would wait forever for a child that has ended already.
//
// So the root is made a subreaper as soon as it exists. No other process can do that for the root:
// the root is stopped where it waits for an image, and made to call prctl itself.

// hasReaper tells whether the image has such a process, so that the root must become a subreaper.
func (i *Image) hasReaper() bool {
	if len(i.Processes) == 0 {
		return false
	}
	root := i.Processes[0]
	for _, p := range i.Processes[1:] {
		if p.Parent == root.PID && p.Session != root.Session && p.Session != p.PID {
			return true
		}
	}
	return false
}

// makeReaper makes the root a subreaper if the root exists and waits in a system call. done is
// false if it is too early.
func makeReaper(init, root int) (done bool, err error) {
	done, err = callInCapsule(init, root, unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1)
	if err != nil {
		err = fmt.Errorf("make the program's root a subreaper: %w", err)
	}
	return done, err
}

// errNotWaiting means that a process does not wait for an image although it should.
var errNotWaiting = errors.New("it does not wait for its image")

// callInCapsule has a process of a capsule make a system call, if the process exists and waits in another call, and go
// on from there. done is false if it is too early.
func callInCapsule(init, pid int, number uintptr, args ...uintptr) (done bool, err error) {
	members, err := listMembers(init)
	if err != nil {
		return false, err
	}
	m, ok := members[pid]
	if !ok {
		return false, nil
	}
	// The process that has asked for the image may just be about to wait.
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", m.host))
		if err != nil {
			return false, nil //nolint:nilerr // it has ended, which criu will tell
		}
		if !strings.HasPrefix(string(b), "running") && !strings.HasPrefix(string(b), "-1") {
			return true, makeCall(m.host, number, args)
		}
	}
	return false, nil
}
