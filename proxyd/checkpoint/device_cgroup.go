// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/life"
)

// A device server works for its job, so what Slurm allows the job of memory and processors holds for it too: its cgroup lies in the
// job's, beside those of steps. Slurm finds it there when the job's last step ends, leaves the job's where it is, and does not come
// again: whoever ends the server removes both. With cgroup v1, or none, the server is the node's.

// stepPrefix begins the names of the cgroups of a job's steps. The job's own is named in more than one way.
const stepPrefix = "step_"

// jobCgroup returns the folder of the job's cgroup v2 of which a process is in a step; "" if it is in none.
func jobCgroup(root string, pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil || root == "" {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			return jobCgroupPath(root, path)
		}
	}
	return ""
}

// jobCgroupPath finds it in the process's path.
func jobCgroupPath(root, path string) string {
	if strings.HasPrefix(path, "/..") {
		return "" // not below what this node sees
	}
	job, _, ok := strings.Cut(path, "/"+stepPrefix)
	if !ok || job == "" {
		return ""
	}
	return filepath.Join(root, job)
}

// deviceCgroup names the cgroup of a capsule's device server in a job's; "" is none.
func deviceCgroup(job string, index int) string {
	if job == "" {
		return ""
	}
	return filepath.Join(job, fmt.Sprintf("sing-devices-%d", index))
}

// jobCgroupHere returns the job's cgroup on this node, "" if Slurm has made none, or not yet: on nodes without the batch script a job that
// is restored has none before its steps, but for that of an extern step.
func (c *Conductor) jobCgroupHere(job uint32) string {
	all, err := os.ReadDir("/proc")
	if err != nil {
		return ""
	}
	for _, e := range all {
		pid, err := strconv.Atoi(e.Name())
		if err == nil && isStepdOf(pid, job) {
			if g := jobCgroup(c.Cgroups, pid); g != "" {
				return g
			}
		}
	}
	return ""
}

// isStepdOf tells whether a process is the slurmstepd of a step of a job's. Anybody can call himself that, but root alone is it.
func isStepdOf(pid int, job uint32) bool {
	dir := fmt.Sprintf("/proc/%d", pid)
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil || st.Uid != 0 {
		return false
	}
	b, err := os.ReadFile(dir + "/cmdline")
	return err == nil && bytes.HasPrefix(b, fmt.Appendf(nil, "slurmstepd: [%d.", job))
}

// enterJobCgroup has a device server that was started before the job had a cgroup here be in it, when its first task comes. What it holds
// by then is not counted.
func (j *job) enterJobCgroup(lc *localCapsule, task int) {
	if lc.devices == nil || lc.devices.Cgroup() != "" {
		return
	}
	g := deviceCgroup(jobCgroup(j.c.Cgroups, task), lc.index)
	if g == "" {
		return
	}
	if err := lc.devices.Enter(g); err != nil {
		j.log.Warn("the job's limits do not hold for its devices", "capsule", lc.index, "error", err)
	}
}

// endDeviceServer ends a device server, and removes its job's cgroup if nothing else is in it any more. It may be called twice.
func endDeviceServer(ctx context.Context, s *life.Server) error {
	g := s.Cgroup()
	if err := s.End(ctx); err != nil || g == "" {
		return err
	}
	return removeEmptyCgroup(filepath.Dir(g))
}

// removeEmptyCgroup removes a cgroup, unless there is something in it.
func removeEmptyCgroup(group string) error {
	err := os.Remove(group)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.ENOTEMPTY) {
		return nil
	}
	return err
}
