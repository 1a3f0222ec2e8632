// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
	"github.com/singularity-slurm/singularity-slurm/proxyd/messagequeue"
)

// MessageQueues returns the POSIX message queues that a process of the capsule sees, and the capsule's programs, all of
// them frozen. Init takes the messages out and puts them back: no message is lost if the caller dies. The result is nil
// for an init of an older build, which cannot capture queues; CRIU then refuses a program that has a queue open.
func (c *Capsule) MessageQueues(ctx context.Context, pid int) (*messagequeue.State, error) {
	_, files, err := c.callInit(ctx, request{Op: opQueues, PID: pid})
	if isUnknownRequest(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer localsock.CloseAll(files)
	if len(files) != 1 {
		return nil, c.withCapsule("", fmt.Errorf("init sent %d files of message queues, want 1", len(files)))
	}
	if _, err := files[0].Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	var s messagequeue.State
	if err := json.NewDecoder(files[0]).Decode(&s); err != nil {
		return nil, c.withCapsule("message queues", err)
	}
	return &s, nil
}

// isUnknownRequest tells whether init is of an older build, which does not know a request.
func isUnknownRequest(err error) bool { return errors.Is(err, syscall.ENOSYS) }

// captureQueues returns a file with the message queues of a process.
func captureQueues(pid int) ([]*os.File, error) {
	s, err := messagequeue.Capture(fmt.Sprintf("/proc/%d/ns/ipc", pid))
	if errors.Is(err, messagequeue.ErrIncomplete) {
		// The programs would run on without these messages. The capsule ends with its init.
		log.Fatal("the capsule ends: ", err)
	}
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("message-queues", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "message-queues")
	if err := json.NewEncoder(f).Encode(s); err != nil {
		f.Close()
		return nil, err
	}
	return []*os.File{f}, nil
}
