// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// group is a cgroup v2 folder of a server's own; "" is none.
type group string

// makeGroup makes the group if it is not there, and opens it for clone3.
func (g group) makeGroup() (*os.File, error) {
	if err := os.Mkdir(string(g), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(string(g), &st); err != nil {
		return nil, &fs.PathError{Op: "statfs", Path: string(g), Err: err}
	}
	if st.Type != unix.CGROUP2_SUPER_MAGIC {
		return nil, fmt.Errorf("%s is no cgroup v2", g)
	}
	return os.Open(string(g))
}

// addProcess makes the group if it is not there, and moves a process into it.
func (g group) addProcess(pid int) error {
	f, err := g.makeGroup()
	if err != nil {
		return err
	}
	defer f.Close()
	return os.WriteFile(filepath.Join(string(g), "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
}

// wasKilledForMemory tells whether something in the group was killed because its job has no more memory. The kernel
// counts who is killed where he is, also if it was the node that had no more; and that a limit was reached where that
// limit is, which is the job's.
func (g group) wasKilledForMemory() bool {
	job := group(filepath.Dir(string(g)))
	return g.eventHappened("memory.events", "oom_kill") && job.eventHappened("memory.events.local", "oom")
}

// eventHappened tells whether an event is counted in one of the group's files.
func (g group) eventHappened(file, event string) bool {
	b, err := os.ReadFile(filepath.Join(string(g), file))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == event {
			return f[1] != "0"
		}
	}
	return false
}

// endGroup kills what is in the group, waits until it is dead, and removes the group. One that is not there is no
// error.
func (g group) endGroup(ctx context.Context) error {
	if g == "" {
		return nil
	}
	err := os.WriteFile(filepath.Join(string(g), "cgroup.kill"), []byte("1"), 0)
	if err == nil {
		err = g.waitEmpty(ctx)
	}
	if err == nil {
		err = os.Remove(string(g))
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// waitEmpty returns when nothing is in the group.
func (g group) waitEmpty(ctx context.Context) error {
	path := filepath.Join(string(g), "cgroup.events")
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	// The end of ctx is an end of file, for poll to see.
	wake, sleep, err := os.Pipe()
	if err != nil {
		return err
	}
	defer wake.Close()
	defer sleep.Close()
	defer context.AfterFunc(ctx, func() { sleep.Close() })()
	b := make([]byte, 256)
	for {
		// Reading it also tells the kernel which events have been seen.
		n, err := unix.Pread(fd, b, 0)
		if err != nil {
			return &fs.PathError{Op: "read", Path: path, Err: err}
		}
		if strings.Contains("\n"+string(b[:n]), "\npopulated 0\n") {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%s: wait until it is empty: %w", g, err)
		}
		polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}, {Fd: int32(wake.Fd()), Events: unix.POLLIN}}
		if _, err := unix.Poll(polled, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("%s: poll: %w", g, err)
		}
	}
}
