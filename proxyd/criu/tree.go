// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// member is a process of a capsule.
type member struct {
	host   int // its PID here
	pid    int // and in the capsule
	parent int // its parent's PID here
	name   string
	zombie bool
}

// listMembers returns the processes in the PID namespace of a capsule's init, by their PIDs there.
func listMembers(init int) (map[int]member, error) {
	ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", init))
	if err != nil {
		return nil, err
	}
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	members := map[int]member{}
	for _, name := range names {
		host, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if link, err := os.Readlink("/proc/" + name + "/ns/pid"); err != nil || link != ns {
			continue
		}
		if m, ok := readMember(host); ok {
			members[m.pid] = m
		}
	}
	return members, nil
}

// readMember reads a process's status. ok is false if the process is gone.
func readMember(host int) (m member, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", host))
	if err != nil {
		return m, false
	}
	m.host = host
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch key {
		case "Name":
			m.name = value
		case "State":
			m.zombie = strings.HasPrefix(value, "Z") || strings.HasPrefix(value, "X")
		case "PPid":
			m.parent, _ = strconv.Atoi(value)
		case "NSpid":
			words := strings.Fields(value)
			if len(words) == 0 {
				return m, false
			}
			m.pid, _ = strconv.Atoi(words[len(words)-1])
		}
	}
	return m, m.pid > 0
}

// readChildren returns a process's children.
func readChildren(pid int) []int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil
	}
	var pids []int
	for _, word := range strings.Fields(string(b)) {
		if pid, err := strconv.Atoi(word); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// killProcesses kills the processes of a capsule that have one of the given PIDs there, with their descendants, and
// returns when they are gone and reaped.
func killProcesses(ctx context.Context, init int, pids []int) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		members, err := listMembers(init)
		if err != nil {
			return err
		}
		doomed := findDescendants(members, pids)
		if len(doomed) == 0 {
			return nil
		}
		for _, m := range doomed {
			if !m.zombie {
				m.killMember()
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("process %d (%s) does not end: %w", doomed[0].pid, doomed[0].name, ctx.Err())
		}
	}
}

// killSession kills the processes of a session, numbered as the caller counts, in a capsule. The
// caller knows that no other session has that number.
func killSession(init, session int) {
	members, _ := listMembers(init) // without the capsule there are no members
	for _, m := range members {
		if !m.zombie && readSession(m.host) == session {
			m.killMember()
		}
	}
}

// readSession returns the session of a process, 0 if the process is gone.
func readSession(host int) int {
	s, err := procfs.ReadStat(host)
	if err != nil {
		return 0
	}
	return s.Session
}

// killMember kills m, unless its PID is another's by now.
func (m member) killMember() {
	fd, err := unix.PidfdOpen(m.host, 0)
	if err != nil {
		return // the process has ended
	}
	defer unix.Close(fd)
	if again, ok := readMember(m.host); ok && again.pid == m.pid {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // the process may have ended
	}
}

// findDescendants returns the members with these pids and their descendants.
func findDescendants(members map[int]member, pids []int) []member {
	byHost := map[int]member{}
	for _, m := range members {
		byHost[m.host] = m
	}
	roots := map[int]bool{}
	for _, pid := range pids {
		if m, ok := members[pid]; ok {
			roots[m.host] = true
		}
	}
	var found []member
	for _, m := range members {
		for up, ok := m, true; ok; up, ok = byHost[up.parent] {
			if roots[up.host] {
				found = append(found, m)
				break
			}
		}
	}
	return found
}
