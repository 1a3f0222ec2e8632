// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// cgroupsOf returns the folders of a process's cgroups, in all mounted hierarchies. It returns
// nil for a process that has ended.
func cgroupsOf(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return nil
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
	return all
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
