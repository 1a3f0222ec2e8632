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

	"github.com/singularity-slurm/singularity-slurm/proxyd/waits"
)

// group is the path of a cgroup v2 folder for a single server; "" means no cgroup.
type group string

// makeGroup makes the group unless the group exists, and opens its folder for clone3.
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

// addProcess makes the group unless the group exists, and moves a process into the group.
func (g group) addProcess(pid int) error {
	f, err := g.makeGroup()
	if err != nil {
		return err
	}
	defer f.Close()
	return os.WriteFile(filepath.Join(string(g), "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
}

// wasKilledForMemory tells whether the kernel killed a process of the group because the job reached its
// memory limit. The kernel counts a kill in the cgroup of the killed process, even if the node was out of
// memory. It counts a reached limit in the cgroup that has the limit, which is the job's. So both counters
// are read.
func (g group) wasKilledForMemory() bool {
	job := group(filepath.Dir(string(g)))
	return g.eventHappened("memory.events", "oom_kill") && job.eventHappened("memory.events.local", "oom")
}

// eventHappened tells whether the counter of an event in a file of the group is above zero.
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

// endGroup kills all processes of the group, waits until they have ended, and removes the group. A missing
// group is no error.
func (g group) endGroup(ctx context.Context) error {
	if g == "" {
		return nil
	}
	err := os.WriteFile(filepath.Join(string(g), "cgroup.kill"), []byte("1"), 0)
	if err == nil {
		err = waits.WaitForCgroupEvent(ctx, string(g), "populated 0")
	}
	if err == nil {
		err = os.Remove(string(g))
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}
