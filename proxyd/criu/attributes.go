// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CRIU does not know of some attributes, and a restored process has criu's:
//
//	timer slack    of a thread: by how much the kernel may delay its timeouts (PR_SET_TIMERSLACK in prctl(2))
//	io priority    of a thread: ionice(1), ioprio_set(2)
//	personality    of a process: setarch(1), personality(2)
//
// A dump notes the attributes that are not the default. A restore sets the first two while the thread stands in ptrace,
// which takes CAP_SYS_NICE, which this process has. Only a process itself can set its personality: this package makes
// it do so where it waits for the image of its memory. Its threads and its children then have the personality, too.

// defaultSlack is the timer slack of a thread if neither the thread nor any ancestor of it has set one
// (init/init_task.c).
const defaultSlack = 50_000

// slackPath works for any thread, though /proc lists leaders only; the folder of a thread in /proc/PID/task has no such
// file.
func slackPath(thread string) string { return "/proc/" + thread + "/timerslack_ns" }

// addAttributes notes the attributes of a process.
func (n *ProcessFacts) addAttributes(host int) error {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", host))
	if err != nil {
		return err
	}
	for _, t := range threads {
		if err := n.addThread(host, t.Name()); err != nil {
			return err
		}
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/personality", host))
	if err != nil {
		return err
	}
	personality, err := strconv.ParseUint(strings.TrimSpace(string(b)), 16, 32)
	n.Personality = uint32(personality)
	return err
}

// addThread notes the attributes of a thread, by its id in the capsule.
func (n *ProcessFacts) addThread(host int, thread string) error {
	b, err := os.ReadFile(slackPath(thread))
	if err != nil {
		return err
	}
	slack, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return err
	}
	id, err := strconv.Atoi(thread)
	if err != nil {
		return err
	}
	priority, err := ioPriorityOf(id)
	if err != nil || slack == defaultSlack && priority == 0 {
		return err
	}
	tid, err := idInCapsule(host, thread)
	if err != nil {
		return err
	}
	if slack != defaultSlack {
		n.Slack = withThread(n.Slack, tid, slack)
	}
	if priority != 0 {
		n.IOPriority = withThread(n.IOPriority, tid, priority)
	}
	return nil
}

// withThread adds a thread's value to known, and makes the map if known is nil.
func withThread[T any](known map[int]T, tid int, value T) map[int]T {
	if known == nil {
		known = map[int]T{}
	}
	known[tid] = value
	return known
}

// ioThread makes ioprio_get and ioprio_set mean a thread (IOPRIO_WHO_PROCESS of linux/ioprio.h).
const ioThread = 1

// ioPriorityOf returns the class and the priority of a thread, 0 if the thread has not set them.
func ioPriorityOf(thread int) (int, error) {
	priority, _, e := unix.Syscall(unix.SYS_IOPRIO_GET, ioThread, uintptr(thread), 0)
	if e != 0 {
		return 0, os.NewSyscallError("ioprio_get", e)
	}
	return int(priority), nil
}

// idInCapsule returns the id of a thread in its capsule.
func idInCapsule(host int, thread string) (int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/status", host, thread))
	if err != nil {
		return 0, err
	}
	tid, _ := readWaiting(b)
	return tid, nil
}

// completeProcesses gives restored processes the state that CRIU does not know of. The processes stand still.
func (i *Image) completeProcesses(init int) error {
	i.renewLibraries(init)
	return i.setAttributes(init)
}

// setAttributes gives restored threads the attributes that they had, except personalities. The threads stand still.
func (i *Image) setAttributes(init int) error {
	var members map[int]member
	for _, p := range i.Processes {
		if len(p.Slack) == 0 && len(p.IOPriority) == 0 {
			continue
		}
		if members == nil {
			var err error
			if members, err = listMembers(init); err != nil {
				return err
			}
		}
		if err := p.setThreads(members[p.PID].host); err != nil {
			return fmt.Errorf("process %d (%s): %w", p.PID, p.Name, err)
		}
	}
	return nil
}

// setThreads sets the attributes of the threads of a process.
func (p Process) setThreads(host int) error {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", host))
	if err != nil {
		return err
	}
	for _, t := range threads {
		tid, err := idInCapsule(host, t.Name())
		if err != nil {
			return err
		}
		if ns, ok := p.Slack[tid]; ok {
			if err := os.WriteFile(slackPath(t.Name()), strconv.AppendUint(nil, ns, 10), 0); err != nil {
				return fmt.Errorf("timer slack: %w", err)
			}
		}
		if priority, ok := p.IOPriority[tid]; ok {
			id, err := strconv.Atoi(t.Name())
			if err != nil {
				return err
			}
			if _, _, e := unix.Syscall(unix.SYS_IOPRIO_SET, ioThread, uintptr(id), uintptr(priority)); e != 0 {
				return os.NewSyscallError("ioprio_set", e)
			}
		}
	}
	return nil
}

// pagemapName is the image for which a process waits before it makes its children.
func pagemapName(pid int) string { return fmt.Sprintf("pagemap-%d.img", pid) }

// personalitiesToSet returns the processes that are to set their personality, by the image that each waits for. If any
// process of i has a personality that is not the default, all have to set theirs: a child has its parent's.
func (i *Image) personalitiesToSet() map[string]Process {
	all := map[string]Process{}
	needed := false
	for _, p := range i.Processes {
		all[pagemapName(p.PID)] = p
		needed = needed || p.Personality != 0
	}
	if !needed {
		return nil
	}
	return all
}

// setPersonality has the process that waits for an image set its personality, if the process is in r.personalities.
func (r *restorer) setPersonality(image string) error {
	p, ok := r.personalities[image]
	if !ok {
		return nil
	}
	err := errNotWaiting
	for end := time.Now().Add(grace); errors.Is(err, errNotWaiting) && time.Now().Before(end); {
		var done bool
		if done, err = callInCapsule(r.init, p.PID, unix.SYS_PERSONALITY, uintptr(p.Personality)); err == nil && !done {
			err = errNotWaiting // too early: the process has just asked for the image
		}
	}
	if err != nil {
		return fmt.Errorf("personality of process %d (%s): %w", p.PID, p.Name, err)
	}
	return nil
}
