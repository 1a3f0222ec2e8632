// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package waits has waits for the kernel and for the clock that end early when a context ends.
package waits

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// SleepUnlessDone sleeps for d, and returns true; if ctx ends meanwhile, or has ended, SleepUnlessDone returns false.
func SleepUnlessDone(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// IsReadable tells whether a read of the descriptor would not wait. A pidfd is readable once its process has ended.
func IsReadable(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}

// WaitForCgroupEvent returns when cgroup.events in a folder of cgroup v2 contains a line, "populated 0" for example. An
// error for a cgroup that was removed wraps fs.ErrNotExist or unix.ENODEV, and an error at the end of ctx that of ctx.
func WaitForCgroupEvent(ctx context.Context, folder, line string) error {
	path := filepath.Join(folder, "cgroup.events")
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	// poll cannot wait for ctx, so the end of ctx closes a pipe: poll returns at the end of file.
	wake, sleep, err := os.Pipe()
	if err != nil {
		return err
	}
	defer wake.Close()
	defer sleep.Close()
	defer context.AfterFunc(ctx, func() { sleep.Close() })()
	b := make([]byte, 256)
	for {
		// Reading the file also tells the kernel which events have been seen. Without the read, poll would
		// return at once.
		n, err := unix.Pread(fd, b, 0)
		if err != nil {
			return &fs.PathError{Op: "read", Path: path, Err: err}
		}
		if strings.Contains("\n"+string(b[:n]), "\n"+line+"\n") {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%s: wait for %q: %w", folder, line, err)
		}
		polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}, {Fd: int32(wake.Fd()), Events: unix.POLLIN}}
		if _, err := unix.Poll(polled, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("%s: poll: %w", folder, err)
		}
	}
}
