// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
)

// InCgroup returns the PIDs of a program's processes, in this daemon's PID namespace.
func InCgroup(cgroup string) []int {
	b, err := os.ReadFile(filepath.Join(cgroup, "cgroup.procs"))
	if err != nil {
		return nil // the program has ended
	}
	var all []int
	for _, w := range strings.Fields(string(b)) {
		if pid, err := strconv.Atoi(w); err == nil && pid != 0 {
			all = append(all, pid)
		}
	}
	return all
}

// NamespacePID returns a process's PID in its own namespace.
func NamespacePID(pid int) int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(b)) {
		if list, ok := strings.CutPrefix(line, "NSpid:"); ok {
			w := strings.Fields(list)
			n, _ := strconv.Atoi(w[len(w)-1])
			return n
		}
	}
	return pid
}

func commandName(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return "a process"
	}
	return strings.TrimSpace(string(b))
}

// ResidentBytes returns an upper bound, roughly, of the size of a program's images.
func ResidentBytes(p capsule.Program) uint64 {
	var sum uint64
	page := uint64(os.Getpagesize())
	for _, pid := range InCgroup(p.Cgroup) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		if err != nil {
			continue
		}
		var size, resident uint64
		if _, err := fmt.Sscan(string(b), &size, &resident); err == nil {
			sum += resident * page
		}
	}
	return sum
}

// Info returns the start time and the command of a process, by its folder in a /proc; zero
// values if the process has ended.
func Info(dir string) (since time.Time, command string) {
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return since, ""
	}
	// The name in parentheses may contain parentheses and blanks. starttime is field 22.
	f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	var now unix.Timespec
	if len(f) > 19 && unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) == nil {
		if ticks, err := strconv.ParseInt(f[19], 10, 64); err == nil {
			const hz = 100 // USER_HZ of all supported machines
			since = time.Now().Add(time.Duration(ticks)*time.Second/hz - time.Duration(now.Nano())).Round(time.Millisecond)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "cmdline")); err == nil {
		command = strings.TrimRight(strings.ReplaceAll(string(b), "\x00", " "), " ")
	}
	if len(command) > maxCommand {
		command = command[:maxCommand] + "…"
	}
	return since, strings.ToValidUTF8(command, "?")
}

// maxCommand keeps a command to a line of a table.
const maxCommand = 120

// SupplementaryGroups returns a process's supplementary groups.
func SupplementaryGroups(pid int) ([]uint32, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		list, ok := strings.CutPrefix(line, "Groups:")
		if !ok {
			continue
		}
		var groups []uint32
		for _, g := range strings.Fields(list) {
			n, err := strconv.ParseUint(g, 10, 32)
			if err != nil {
				return nil, err
			}
			groups = append(groups, uint32(n))
		}
		return groups, nil
	}
	return nil, fmt.Errorf("PID %d: no groups", pid)
}

// SlurmEnv returns the SLURM_* variables of a process.
func SlurmEnv(pid int) (map[string]string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return nil, err
	}
	env := map[string]string{}
	for v := range strings.SplitSeq(string(b), "\x00") {
		if k, val, ok := strings.Cut(v, "="); ok && strings.HasPrefix(k, "SLURM") {
			env[k] = val
		}
	}
	return env, nil
}

// ParentPID returns the PID of a process's parent.
func ParentPID(pid int) (int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	s := string(b)
	var state string
	var parent int
	_, err = fmt.Sscan(s[strings.LastIndexByte(s, ')')+1:], &state, &parent)
	return parent, err
}

// RunningPrograms returns the programs of a capsule that have started and not ended.
func RunningPrograms(ctx context.Context, c *capsule.Capsule) ([]capsule.Program, error) {
	all, err := c.Programs(ctx)
	return slices.DeleteFunc(all, func(p capsule.Program) bool { return p.Ended || p.Waiting }), err
}
