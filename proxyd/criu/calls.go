// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/syscalls"
)

// rewindCalls has the threads of a frozen program make their system calls again after the dump,
// which otherwise return EINTR. A call that cannot be made again returns EINTR as without this
// function, so that is no error.
func rewindCalls(ctx context.Context, group cgroup, p *Program) (*syscalls.Rewound, error) {
	threads, err := group.listThreads()
	if err != nil {
		return nil, err
	}
	calls, _ := syscalls.Rewind(threads, p.Observed, p.ClocksRead)
	if calls.Count() == 0 {
		return nil, nil //nolint:nilnil // a program without such calls
	}
	// Threads that ptrace has stopped count as not frozen for a moment.
	return calls, group.setFrozen(ctx, true)
}

// SetTimeLeft gives the system calls in which the dumped program waits the time that they have left
// by now. It is called before the program is thawed, where the program goes on in place; otherwise
// these calls wait longer, by the time that the program was frozen. The program is frozen still.
// SetTimeLeft may be called again.
func (i *Image) SetTimeLeft() error {
	if i.calls == nil {
		return nil
	}
	return i.calls.SetTimeLeft()
}

// listThreads returns the threads in the cgroup and below it.
func (c cgroup) listThreads() ([]int, error) {
	var all []int
	err := filepath.WalkDir(string(c), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		b, err := os.ReadFile(filepath.Join(path, "cgroup.threads"))
		if err != nil {
			return err
		}
		for _, word := range strings.Fields(string(b)) {
			tid, err := strconv.Atoi(word)
			if err != nil {
				return err
			}
			all = append(all, tid)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	return all, nil
}
