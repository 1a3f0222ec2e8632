// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// process has the fields of /proc/PID/stat that a capsule uses.
type process struct {
	pid, parent, session int
	state                byte
	start                uint64 // ticks since boot: identifies the process together with the PID
}

func (p process) isAlive() bool {
	now, err := readStat(p.pid)
	return err == nil && now.start == p.start
}

func (p process) ended() bool { return p.state == 'Z' || p.state == 'X' }

// readStat returns the stat of a process; an error wrapping ESRCH or os.ErrNotExist if there is no such process.
func readStat(pid int) (process, error) {
	s, err := procfs.ReadStat(pid)
	if err != nil {
		return process{}, err
	}
	return process{pid: pid, parent: s.Parent, session: s.Session, state: s.State, start: s.Start}, nil
}

// realUID returns the real user of a process.
func realUID(pid int) (uint32, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	return uidIn(b)
}

// listProcesses returns the processes of this PID namespace.
func listProcesses() ([]process, error) {
	names, err := readNames("/proc")
	if err != nil {
		return nil, err
	}
	var all []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := readStat(pid); err == nil { // else the process has just ended
			all = append(all, p)
		}
	}
	return all, nil
}

func readNames(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// descendantsOf returns the live descendants of all processes for which isRoot is true, without these.
func descendantsOf(all []process, isRoot func(process) bool) []process {
	children := map[int][]process{}
	var queue []int
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
		if isRoot(p) {
			queue = append(queue, p.pid)
		}
	}
	seen := map[int]bool{}
	for _, pid := range queue {
		seen[pid] = true
	}
	var found []process
	for len(queue) > 0 {
		pid := queue[0]
		queue = queue[1:]
		for _, p := range children[pid] {
			if seen[p.pid] {
				continue
			}
			seen[p.pid] = true
			queue = append(queue, p.pid)
			if !p.ended() {
				found = append(found, p)
			}
		}
	}
	return found
}

// signalProcess sends sig to p if the PID still belongs to the process that was seen. It returns a pidfd of the
// process, nil if the process has ended.
func signalProcess(p process, sig unix.Signal) (*pidfd, error) {
	fd, err := openPidfd(p.pid)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	// The pidfd refers to one process from now on; check that this is the process that was seen.
	if !p.isAlive() {
		fd.close()
		return nil, nil
	}
	if err := fd.signal(sig); err != nil && !errors.Is(err, unix.ESRCH) {
		fd.close()
		return nil, err
	}
	return fd, nil
}

// signalProgram sends sig to everything below the steward. Processes that start meanwhile may not get the signal, as
// with Slurm's own signals.
func signalProgram(steward int, sig unix.Signal) error {
	all, err := listProcesses()
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range descendantsOf(all, func(p process) bool { return p.pid == steward }) {
		fd, err := signalProcess(p, sig)
		if fd != nil {
			fd.close()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// killProgram kills a program: the processes in its cgroup. Without a cgroup: everything below its steward, which
// adopts orphans meanwhile, until no process is left; then the steward. Without a steward: the session of the program's
// first process and its descendants.
//
// A killed process cannot fork any more, so each round leaves fewer. Between rounds killProgram
// waits for the deaths of the previous round.
func killProgram(k kill) error {
	if k.cgroup != "" {
		if err := group(k.cgroup).killProcesses(); !isGone(err) {
			return err
		}
		return nil
	}
	steward, first := k.pid, k.first
	root := func(p process) bool { return p.pid == steward }
	if steward == 0 {
		root = func(p process) bool { return p.session == first && p.pid != 1 }
	}
	for {
		all, err := listProcesses()
		if err != nil {
			return err
		}
		targets := descendantsOf(all, root)
		if steward == 0 {
			for _, p := range all {
				if root(p) && !p.ended() {
					targets = append(targets, p)
				}
			}
		}
		if len(targets) == 0 {
			break
		}
		if err := killAll(targets); err != nil {
			return err
		}
	}
	if steward == 0 {
		return nil
	}
	if err := unix.Kill(steward, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

// killAll kills processes and waits until they are dead.
func killAll(targets []process) error {
	var dying []*pidfd
	var errs []error
	for _, p := range targets {
		fd, err := signalProcess(p, unix.SIGKILL)
		errs = append(errs, err)
		if fd != nil {
			dying = append(dying, fd)
		}
	}
	for _, fd := range dying {
		errs = append(errs, fd.wait(context.Background()))
		fd.close()
	}
	return errors.Join(errs...)
}
