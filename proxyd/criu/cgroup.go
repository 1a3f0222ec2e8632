// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroup is the folder of a cgroup v2; "" if there is no cgroup.
type cgroup string

func (c cgroup) filePath(name string) string { return filepath.Join(string(c), name) }

// isFrozen tells whether the cgroup was asked to freeze.
func (c cgroup) isFrozen() (bool, error) {
	if c == "" {
		return false, nil
	}
	b, err := os.ReadFile(c.filePath("cgroup.freeze"))
	if err != nil {
		return false, fmt.Errorf("cgroup: %w", err)
	}
	return strings.TrimSpace(string(b)) == "1", nil
}

// setFrozen freezes or thaws the cgroup, and returns when every process in it is frozen, or runs.
func (c cgroup) setFrozen(ctx context.Context, on bool) error {
	word := "0"
	if on {
		word = "1"
	}
	events, err := os.Open(c.filePath("cgroup.events"))
	if err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	defer events.Close()
	if err := os.WriteFile(c.filePath("cgroup.freeze"), []byte(word), 0); err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	for {
		b := make([]byte, 256)
		n, err := events.ReadAt(b, 0)
		if n == 0 {
			return fmt.Errorf("cgroup: %w", err)
		}
		if strings.Contains(string(b[:n]), "frozen "+word) {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		// The file says by POLLPRI that its content has changed since the last read.
		_, err = unix.Poll([]unix.PollFd{{Fd: int32(events.Fd()), Events: unix.POLLPRI}}, 100)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("poll", err)
		}
	}
}

// moveOut moves processes out of c: into the cgroup above, or into this process's cgroup, where the one above may have
// no processes because it hands out controllers.
func (c cgroup) moveOut(pids ...int) error {
	above := cgroup(filepath.Dir(string(c)))
	for _, pid := range pids {
		err := above.moveIn(pid)
		if errors.Is(err, unix.EBUSY) {
			err = c.ownCgroup().moveIn(pid)
		}
		if err != nil {
			return fmt.Errorf("cgroup: %w", err)
		}
	}
	return nil
}

func (c cgroup) moveIn(pid int) error {
	return os.WriteFile(c.filePath("cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
}

// ownCgroup is this process's cgroup in the mounted tree to which c belongs.
func (c cgroup) ownCgroup() cgroup {
	root := string(c)
	for up := filepath.Dir(root); up != root; up = filepath.Dir(root) {
		var st unix.Statfs_t
		if unix.Statfs(up, &st) != nil || st.Type != unix.CGROUP2_SUPER_MAGIC {
			break
		}
		root = up
	}
	b, _ := os.ReadFile("/proc/self/cgroup") // a wrong path shows when the cgroup is entered
	for line := range strings.Lines(string(b)) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return cgroup(filepath.Join(root, strings.TrimSuffix(path, "\n")))
		}
	}
	return cgroup(root)
}

// listThreads returns the threads in the cgroup and below it.
func (c cgroup) listThreads() ([]int, error) { return c.listNumbers("cgroup.threads") }

// listProcesses returns the processes in the cgroup and below it.
func (c cgroup) listProcesses() ([]int, error) { return c.listNumbers("cgroup.procs") }

// listNumbers returns the numbers in the files of that name, of the cgroup and of all cgroups below it.
func (c cgroup) listNumbers(name string) ([]int, error) {
	var all []int
	err := filepath.WalkDir(string(c), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		b, err := os.ReadFile(filepath.Join(path, name))
		if err != nil {
			return err
		}
		for _, word := range strings.Fields(string(b)) {
			n, err := strconv.Atoi(word)
			if err != nil {
				return err
			}
			all = append(all, n)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	return all, nil
}

// endLeftovers kills the processes in the cgroup of a program that is to be restored, and returns when they are gone,
// also from the capsule with this init. A daemon that was killed during a restore leaves them behind: criu, which
// notices only later that the daemon has ended, and the processes that criu has made.
func (c cgroup) endLeftovers(ctx context.Context, init int) error {
	if c == "" {
		return nil
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	doomed := map[int]int{} // PIDs on the node, by those in the capsule
	for {
		threads, err := c.listThreads()
		if err != nil || len(threads) == 0 && len(doomed) == 0 {
			return err
		}
		members, err := listMembers(init)
		if err != nil {
			return err
		}
		left := len(threads)
		for pid, m := range members {
			if slices.Contains(threads, m.host) {
				doomed[pid] = m.host
			}
			if doomed[pid] == m.host { // the PID is not another program's by now
				left++
			}
		}
		if left == 0 {
			return nil
		}
		if err := c.killProcesses(); err != nil {
			return fmt.Errorf("remains of an earlier restore: %w", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("processes of an earlier restore do not end: %w", ctx.Err())
		}
	}
}

// killProcesses kills the processes in the cgroup, and no others: it holds a pidfd of each process before it asks the
// cgroup whether the process is still there, so no other process that has got the same PID meanwhile is killed.
// cgroup.kill does the same; but after a write there, kernels of our time kill each process that is later started in
// the cgroup by CLONE_INTO_CGROUP, as criu is.
func (c cgroup) killProcesses() error {
	before, err := c.listProcesses()
	if err != nil {
		return err
	}
	held := map[int]int{}
	defer func() {
		for _, fd := range held {
			unix.Close(fd)
		}
	}()
	for _, pid := range before {
		fd, err := unix.PidfdOpen(pid, 0)
		switch {
		case err == nil:
			held[pid] = fd
		case !errors.Is(err, unix.ESRCH): // ESRCH: the process has ended
			return os.NewSyscallError("pidfd_open", err)
		}
	}
	after, err := c.listProcesses()
	if err != nil {
		return err
	}
	for _, pid := range after {
		if fd, ok := held[pid]; ok {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // the process may have ended
		}
	}
	return nil
}
