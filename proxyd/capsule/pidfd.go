// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
	"github.com/singularity-slurm/singularity-slurm/proxyd/waits"
)

// pidfd is a process, by descriptor, so that a reused PID is not mistaken for it.
type pidfd struct{ f *os.File }

// openPidfd opens a process. It returns an error wrapping ESRCH if there is no such process.
func openPidfd(pid int) (*pidfd, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("pidfd_open %d: %w", pid, err)
	}
	return &pidfd{os.NewFile(uintptr(fd), "pidfd")}, nil
}

func (p *pidfd) close() { p.f.Close() }

// signal returns ESRCH once the process has been reaped.
func (p *pidfd) signal(sig unix.Signal) error {
	return localsock.TryWithDescriptor(p.f, func(fd int) error { return unix.PidfdSendSignal(fd, sig, nil, 0) })
}

// alive tells whether the process has not ended yet.
func (p *pidfd) alive() bool {
	ended := false
	err := localsock.WithDescriptor(p.f, func(fd int) { ended = waits.IsReadable(fd) })
	return err == nil && !ended
}

// wait returns nil when the process has ended, reaped or not.
func (p *pidfd) wait(ctx context.Context) error {
	raw, err := p.f.SyscallConn()
	if err != nil {
		return err
	}
	defer localsock.InterruptAtEnd(ctx, p.f.SetReadDeadline)()
	err = raw.Read(func(fd uintptr) bool { return waits.IsReadable(int(fd)) })
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ctx.Err()
	}
	return err
}

// pidHere returns the process's PID in the /proc of this mount namespace; an error wrapping ESRCH if it has no PID
// there.
func (p *pidfd) pidHere() (int, error) {
	pid := 0
	err := localsock.TryWithDescriptor(p.f, func(fd int) error {
		var err error
		pid, err = readPidfdPID(fd)
		return err
	})
	return pid, err
}

// readPidfdPID is pidHere for a bare descriptor, which need not be a pidfd.
func readPidfdPID(fd int) (int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return 0, err
	}
	return pidIn(b)
}

// pidIn reads the fdinfo of a pidfd.
func pidIn(fdinfo []byte) (int, error) {
	for line := range strings.Lines(string(fdinfo)) {
		value, ok := strings.CutPrefix(line, "Pid:")
		if !ok {
			continue
		}
		pid, err := strconv.Atoi(strings.TrimSpace(value))
		if err != nil {
			return 0, err
		}
		if pid <= 0 { // 0: the process is in a namespace that is not below this one; -1: it was reaped
			return 0, syscall.ESRCH
		}
		return pid, nil
	}
	return 0, syscall.EBADF
}
