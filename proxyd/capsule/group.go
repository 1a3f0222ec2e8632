// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

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

// group is the folder of a program's cgroup. The folder lies below the warden's, so that Slurm's
// limits and accounting apply, and belongs to root, so that a process of another user cannot leave.
type group string

// makeGroup makes the folder name below parent.
func makeGroup(parent, name string) (group, error) {
	g := group(filepath.Join(parent, name))
	if err := os.Mkdir(string(g), 0o755); err != nil {
		return "", err
	}
	// Kernels before 5.14 cannot kill a group as a whole; then programs get no group.
	if _, err := os.Stat(g.filePath("cgroup.kill")); err != nil {
		return "", errors.Join(err, os.Remove(string(g)))
	}
	return g, nil
}

func (g group) filePath(name string) string { return filepath.Join(string(g), name) }

// writeFile writes to a file of the group. The error isGone if the group has been removed.
func (g group) writeFile(file, value string) error {
	f, err := os.OpenFile(g.filePath(file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(value)
	return err
}

// addProcesses moves processes into the group.
func (g group) addProcesses(pids ...int) error {
	for _, pid := range pids {
		if err := g.writeFile("cgroup.procs", strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("PID %d: %w", pid, err)
		}
	}
	return nil
}

// killProcesses kills all processes in the group, frozen or not, also new ones.
func (g group) killProcesses() error { return g.writeFile("cgroup.kill", "1") }

func (g group) freeze() error { return g.writeFile("cgroup.freeze", "1") }
func (g group) thaw() error   { return g.writeFile("cgroup.freeze", "0") }

// frozen tells whether the group is frozen or about to be.
func (g group) frozen() bool {
	b, err := os.ReadFile(g.filePath("cgroup.freeze"))
	return err == nil && strings.TrimSpace(string(b)) == "1"
}

// hasState tells whether a thread of the group is in a state, by the letter of proc(5).
func (g group) hasState(state byte) bool {
	b, err := os.ReadFile(g.filePath("cgroup.threads"))
	if err != nil {
		return false
	}
	for field := range strings.FieldsSeq(string(b)) {
		if tid, err := strconv.Atoi(field); err == nil {
			if p, err := readStat(tid); err == nil && p.state == state {
				return true
			}
		}
	}
	return false
}

// clearAndRemove kills the processes in the group, waits for their death, and removes the group. A missing
// group is no error.
func (g group) clearAndRemove(ctx context.Context) error {
	err := g.killProcesses()
	if err == nil {
		err = g.waitForEvent(ctx, "populated 0")
	}
	if err == nil {
		err = g.removeTree()
	}
	if isGone(err) {
		return nil
	}
	return err
}

// removeTree removes the group and the groups below: programs of root's can make some.
func (g group) removeTree() error {
	entries, err := os.ReadDir(string(g))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := group(g.filePath(e.Name())).removeTree(); err != nil && !isGone(err) {
				return err
			}
		}
	}
	return os.Remove(string(g))
}

// isGone tells whether err means that a group does not exist any more.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV)
}

// waitForEvent returns when cgroup.events contains the line want.
func (g group) waitForEvent(ctx context.Context, want string) error {
	fd, err := unix.Open(g.filePath("cgroup.events"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: g.filePath("cgroup.events"), Err: err}
	}
	defer unix.Close(fd)
	// The end of ctx closes the pipe, which ends poll.
	wake, sleep, err := os.Pipe()
	if err != nil {
		return err
	}
	defer wake.Close()
	defer sleep.Close()
	defer context.AfterFunc(ctx, func() { sleep.Close() })()
	b := make([]byte, 256)
	for {
		// The read also tells the kernel which events have been seen.
		n, err := unix.Pread(fd, b, 0)
		if err != nil {
			return &fs.PathError{Op: "read", Path: g.filePath("cgroup.events"), Err: err}
		}
		if strings.Contains("\n"+string(b[:n]), "\n"+want+"\n") {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%s: wait for %q: %w", g, want, err)
		}
		polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}, {Fd: int32(wake.Fd()), Events: unix.POLLIN}}
		if _, err := unix.Poll(polled, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("%s: poll: %w", g, err)
		}
	}
}
