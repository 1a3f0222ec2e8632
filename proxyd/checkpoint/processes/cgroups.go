// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// Slurm's limits of memory and processors for the job apply to its device servers and forwarders too: their
// cgroups lie in the job's cgroup, beside the cgroups of the steps. At the end of the job's last step
// Slurm finds the job's cgroup in use, leaves it, and does not come back, so the device server's
// end removes both. With cgroup v1, or without cgroups, no limit applies.

// stepPrefix begins the names of the cgroups of a job's steps. The name of the job's own cgroup
// varies.
const stepPrefix = "step_"

// JobCgroup returns the folder of the cgroup v2 of the job that a process belongs to by its step; "" if
// there is none.
func JobCgroup(root string, pid int) string {
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

// OwnCgroup returns the folder of the cgroup v2 of a process; "" if there is none, or the process has ended.
func OwnCgroup(root string, p Process) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", p.PID))
	if err != nil || root == "" || p.HasEnded() {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::")
		if ok && !strings.HasPrefix(path, "/..") {
			return filepath.Join(root, path)
		}
	}
	return ""
}

// jobCgroupPath finds the job's cgroup in a path of /proc/PID/cgroup.
func jobCgroupPath(root, path string) string {
	if strings.HasPrefix(path, "/..") {
		return "" // outside of the part that this node sees
	}
	job, _, ok := strings.Cut(path, "/"+stepPrefix)
	if !ok || job == "" {
		return ""
	}
	return filepath.Join(root, job)
}

// DeviceCgroup returns the path of the cgroup for a capsule's device server within a job's; ""
// for none.
func DeviceCgroup(job string, index int) string {
	if job == "" {
		return ""
	}
	return filepath.Join(job, fmt.Sprintf("sing-devices-%d", index))
}

// ForwardCgroup returns the path of the cgroup for a capsule's forwarder within a job's; "" for none.
func ForwardCgroup(job string, index int) string {
	if job == "" {
		return ""
	}
	return filepath.Join(job, fmt.Sprintf("sing-forward-%d", index))
}

// InFilesCgroup does work in which a process of the job's user handles files, before the job has processes of its own.
// The work gets the path of a cgroup for that process within the job's, or "" if the job has none on this node.
func InFilesCgroup(root string, job uint32, index int, work func(cgroup string) error) error {
	in := JobCgroupHere(root, job)
	if in == "" {
		return work("")
	}
	group := filepath.Join(in, fmt.Sprintf("%s%d", filesPrefix, index))
	if err := os.Mkdir(group, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("a cgroup in the job's: %w", err)
	}
	return errors.Join(work(group), removeFilesCgroup(group))
}

// filesPrefix begins the names of the cgroups of InFilesCgroup.
const filesPrefix = "sing-files-"

// removeFilesCgroup removes a cgroup of InFilesCgroup, and the job's if that is empty then: at the job's end Slurm has found it
// in use.
func removeFilesCgroup(group string) error {
	return errors.Join(RemoveEmptyCgroup(group), RemoveEmptyCgroup(filepath.Dir(group)))
}

// jobCgroupDepth is how deep below the root of the hierarchy the cgroups of jobs are at most: below a slice, a scope,
// and folders for the node and the user.
const jobCgroupDepth = 6

// RemoveLeftFilesCgroups removes the cgroups below root that a daemon has left that was killed in InFilesCgroup. A cgroup
// with processes stays.
func RemoveLeftFilesCgroups(root string) error {
	if root == "" {
		return nil
	}
	var failed []error
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // a job has ended meanwhile
		case err != nil:
			return err
		case !d.IsDir():
			return nil
		case strings.HasPrefix(d.Name(), filesPrefix):
			failed = append(failed, removeFilesCgroup(path))
			return fs.SkipDir
		case strings.HasPrefix(d.Name(), stepPrefix), strings.Count(strings.TrimPrefix(path, root), "/") >= jobCgroupDepth:
			return fs.SkipDir
		}
		return nil
	})
	return errors.Join(append(failed, err)...)
}

// JobCgroupHere returns the job's cgroup on this node, below root; "" if Slurm has not made it yet. On a node without
// the batch script, a restored job has no cgroup before its steps start, except that of an extern step.
func JobCgroupHere(root string, job uint32) string {
	all, err := os.ReadDir("/proc")
	if err != nil {
		return ""
	}
	for _, e := range all {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		p, err := NewProcess(pid)
		if err != nil || !isStepdOf(pid, job) {
			continue
		}
		if g := JobCgroup(root, pid); g != "" && !p.HasEnded() {
			return g
		}
	}
	return ""
}

// isStepdOf tells whether a process is the slurmstepd of a step of the job. Any process can use
// that name, also a set-user-ID program of root's, which a user starts with a name of the user's choice. So the executable must
// be slurmstepd, too, and its real user root.
func isStepdOf(pid int, job uint32) bool {
	dir := fmt.Sprintf("/proc/%d", pid)
	b, err := procfs.Cmdline(dir)
	if err != nil || !bytes.HasPrefix(b, fmt.Appendf(nil, "slurmstepd: [%d.", job)) {
		return false
	}
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return false
	}
	ids, err := statusNumbers(status, "Uid:")
	if err != nil || slices.ContainsFunc(ids, func(id uint32) bool { return id != 0 }) {
		return false
	}
	exe, err := os.Readlink(dir + "/exe")
	return err == nil && filepath.Base(strings.TrimSuffix(exe, " (deleted)")) == "slurmstepd" // deleted: after an upgrade of Slurm
}

// RemoveEmptyCgroup removes a cgroup that is not in use.
func RemoveEmptyCgroup(group string) error {
	err := os.Remove(group)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.ENOTEMPTY) {
		return nil
	}
	return err
}

// CgroupsOf returns the folders of a process's cgroups, in all mounted hierarchies. The error wraps ErrEnded if the process
// has ended.
func CgroupsOf(p Process) ([]string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", p.PID))
	if p.HasEnded() {
		err = fmt.Errorf("PID %d: %w", p.PID, ErrEnded)
	}
	if err != nil {
		return nil, err
	}
	at := cgroupMounts()
	var all []string
	for line := range strings.Lines(strings.TrimSpace(string(b))) {
		// "4:memory:/slurm/uid_1001/job_5"
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 || f[2] == "/" {
			continue
		}
		if mount, ok := at[f[1]]; ok {
			all = append(all, filepath.Join(mount, f[2]))
		}
	}
	return all, nil
}

// cgroupMounts maps each hierarchy, as /proc/PID/cgroup names it, to its mount point.
func cgroupMounts() map[string]string {
	at := map[string]string{}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return at
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		before, after, ok := strings.Cut(s.Text(), " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 3 {
			continue
		}
		switch right[0] {
		case "cgroup2":
			if at[""] == "" {
				at[""] = left[4]
			}
		case "cgroup":
			// "rw,cpu,cpuacct" or "rw,name=systemd"; the name in /proc is without "rw".
			_, controllers, _ := strings.Cut(right[2], ",")
			at[controllers] = left[4]
		}
	}
	return at
}
