// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// The timer slack of a thread is by how much the kernel may delay its timeouts (PR_SET_TIMERSLACK in
// prctl(2)). CRIU does not know of it: a restored thread has criu's. So a dump notes the slack of each
// thread that has set one, and a restore writes it back while the thread stands in ptrace. Both take
// CAP_SYS_NICE, which this process has.

// defaultSlack is what every thread has that has set none, and no ancestor of it (init/init_task.c).
const defaultSlack = 50_000

// slackPath is of any thread, though /proc lists leaders only; the folder of a thread in
// /proc/PID/task has no such file.
func slackPath(thread string) string { return "/proc/" + thread + "/timerslack_ns" }

// slackOf returns the timer slack of the threads of a process that have not the default, in nanoseconds,
// by their ids in the capsule; nil if there are none.
func slackOf(host int) (map[int]uint64, error) {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", host))
	if err != nil {
		return nil, err
	}
	var all map[int]uint64
	for _, t := range threads {
		b, err := os.ReadFile(slackPath(t.Name()))
		if err != nil {
			return nil, err
		}
		slack, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
		if err != nil {
			return nil, err
		}
		if slack == defaultSlack {
			continue
		}
		tid, err := idInCapsule(host, t.Name())
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = map[int]uint64{}
		}
		all[tid] = slack
	}
	return all, nil
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

// setSlack gives restored threads the timer slack that they had. They stand still.
func (i *Image) setSlack(init int) error {
	var members map[int]member
	for _, p := range i.Processes {
		if len(p.Slack) == 0 {
			continue
		}
		if members == nil {
			var err error
			if members, err = membersOf(init); err != nil {
				return err
			}
		}
		if err := setSlackOf(members[p.PID].host, p.Slack); err != nil {
			return fmt.Errorf("process %d (%s): timer slack: %w", p.PID, p.Name, err)
		}
	}
	return nil
}

// setSlackOf writes the timer slack of threads of a process, by their ids in the capsule.
func setSlackOf(host int, slack map[int]uint64) error {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", host))
	if err != nil {
		return err
	}
	for _, t := range threads {
		tid, err := idInCapsule(host, t.Name())
		if err != nil {
			return err
		}
		ns, ok := slack[tid]
		if !ok {
			continue
		}
		if err := os.WriteFile(slackPath(t.Name()), strconv.AppendUint(nil, ns, 10), 0); err != nil {
			return err
		}
	}
	return nil
}
