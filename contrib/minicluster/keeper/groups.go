// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// findGroups are the cgroups that proxyd made for a process's descendants. Hosts share the
// machine's hierarchy of cgroups, so only these remain after a host's processes have ended.
func findGroups(pid int) []string {
	mounts, _ := os.ReadFile("/proc/self/mounts")
	root := ""
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "cgroup2" {
			root = f[1]
			break
		}
	}
	if root == "" {
		return nil
	}
	var found []string
	for todo := []int{pid}; len(todo) > 0; {
		pid, todo = todo[0], todo[1:]
		if own, ok := readCgroup(pid); ok {
			found = append(found, filepath.Join(root, own))
		}
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
		for _, list := range lists {
			text, _ := os.ReadFile(list) // the process may have ended
			for child := range strings.FieldsSeq(string(text)) {
				if n, err := strconv.Atoi(child); err == nil {
					todo = append(todo, n)
				}
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// readCgroup is the outermost of proxyd's cgroups that a process is in.
func readCgroup(pid int) (string, bool) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	for line := range strings.Lines(string(text)) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::/")
		if !ok {
			continue
		}
		steps := strings.Split(path, "/")
		if at := slices.IndexFunc(steps, func(s string) bool { return strings.HasPrefix(s, "sing-") }); at >= 0 {
			return filepath.Join(steps[:at+1]...), true
		}
	}
	return "", false
}

// removeGroups removes cgroups without processes, with the groups inside.
func removeGroups(groups []string) {
	for _, g := range groups {
		var all []string
		_ = filepath.WalkDir(g, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				all = append(all, path)
			}
			return nil
		})
		for _, path := range slices.Backward(all) {
			_ = os.Remove(path) // proxyd may have been quicker
		}
	}
}
