// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// pipePollInterval is the time between two looks into a pipe. The kernel notifies only writers,
// not other processes, when a pipe becomes empty.
const pipePollInterval = 2 * time.Millisecond

// WaitForEmptyPipe waits until the process pid, which has the reading end of a pipe, has read
// everything.
func WaitForEmptyPipe(ctx context.Context, pid int, pipe string) error {
	f, err := openPipeOf(pid, pipe)
	if err != nil || f == nil {
		return err // nil: the process has closed the pipe and forwards no more output
	}
	defer f.Close()
	return waitUntilEmpty(ctx, int(f.Fd()), func() bool { return false })
}

// waitUntilEmpty returns when a pipe is empty, or its reader has ended.
func waitUntilEmpty(ctx context.Context, pipe int, hasReaderEnded func() bool) error {
	tick := time.NewTicker(pipePollInterval)
	defer tick.Stop()
	for {
		n, err := unix.IoctlGetInt(pipe, unix.TIOCINQ)
		if err != nil || n == 0 || hasReaderEnded() {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// openPipeOf opens a pipe of a process. It returns nil if the process has no such pipe.
func openPipeOf(pid int, pipe string) (*os.File, error) {
	for d, err := range procfs.Descriptors(pid) {
		if procfs.IsEnded(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if to, err := d.Link(); err != nil || to != pipe {
			continue
		}
		fd, err := unix.Open(d.Path(), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		return os.NewFile(uintptr(fd), pipe), nil
	}
	return nil, nil
}
