// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
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
	all := namespacePIDs(pid)
	return all[len(all)-1]
}

// capsulePID returns a process's PID in the capsule with this init, also if the process is in a PID namespace below.
func capsulePID(init, pid int) int {
	all := namespacePIDs(pid)
	return all[min(len(namespacePIDs(init)), len(all))-1]
}

// namespacePIDs returns a process's PIDs, from this daemon's namespace to that of the process: at least pid.
func namespacePIDs(pid int) []int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(b)) {
		list, ok := strings.CutPrefix(line, "NSpid:")
		if !ok {
			continue
		}
		var all []int
		for _, word := range strings.Fields(list) {
			n, _ := strconv.Atoi(word)
			all = append(all, n)
		}
		if len(all) > 0 {
			return all
		}
	}
	return []int{pid}
}

// FirstProcess returns the PID of a program's first process, in this daemon's PID namespace; ENOENT if the program
// does not run.
func FirstProcess(ctx context.Context, c *capsule.Capsule, program string) (int, error) {
	programs, err := RunningPrograms(ctx, c)
	if err != nil {
		return 0, err
	}
	for _, p := range programs {
		if p.Name != program {
			continue
		}
		return findByCapsulePID(c.PID(), InCgroup(p.Cgroup), p.First)
	}
	return 0, unix.ENOENT
}

// findByCapsulePID returns the process that has a number in the capsule with this init; ENOENT if there is none.
func findByCapsulePID(init int, pids []int, number int) (int, error) {
	for _, pid := range pids {
		if capsulePID(init, pid) == number {
			return pid, nil
		}
	}
	return 0, unix.ENOENT
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
	if b, err := procfs.Cmdline(dir); err == nil {
		command = strings.TrimRight(strings.ReplaceAll(string(b), "\x00", " "), " ")
	}
	if len(command) > maxCommand {
		command = command[:maxCommand] + "…"
	}
	return since, strings.ToValidUTF8(command, "?")
}

// maxCommand keeps a command to a line of a table.
const maxCommand = 120

// UserGroups returns the supplementary groups that a job's user has in the job: those of the first process that has no
// other ids than the user's and is in this process's user namespace. A process that a user started by sudo, or in a
// user namespace, may have groups that are not the user's. UserGroups returns nil if there is no such process.
func UserGroups(pids []int, uid, gid uint32) []uint32 {
	here, err := os.Readlink("/proc/self/ns/user")
	if err != nil {
		return nil
	}
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue // the process has ended
		}
		if !hasOnlyID(b, "Uid:", uid) || !hasOnlyID(b, "Gid:", gid) {
			continue
		}
		if ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/user", pid)); err != nil || ns != here {
			continue
		}
		if groups, err := statusNumbers(b, "Groups:"); err == nil {
			return groups
		}
	}
	return nil
}

// hasOnlyID tells whether the real, effective, saved and file system ids of a status are all id.
func hasOnlyID(status []byte, key string, id uint32) bool {
	ids, err := statusNumbers(status, key)
	return err == nil && len(ids) == 4 && !slices.ContainsFunc(ids, func(n uint32) bool { return n != id })
}

// statusNumbers returns the numbers behind a key of /proc/PID/status.
func statusNumbers(status []byte, key string) ([]uint32, error) {
	for line := range strings.Lines(string(status)) {
		list, ok := strings.CutPrefix(line, key)
		if !ok {
			continue
		}
		numbers := []uint32{}
		for _, word := range strings.Fields(list) {
			n, err := strconv.ParseUint(word, 10, 32)
			if err != nil {
				return nil, fmt.Errorf("status: %s %w", key, err)
			}
			numbers = append(numbers, uint32(n))
		}
		return numbers, nil
	}
	return nil, fmt.Errorf("status: no %s", key)
}

// ErrEnded is the error for a process that has ended.
var ErrEnded = errors.New("the process has ended")

// SlurmEnv returns the SLURM_* variables of a process.
func SlurmEnv(p Process) (map[string]string, error) {
	b, err := procfs.Environ(p.PID)
	if err == nil && p.HasEnded() {
		err = fmt.Errorf("PID %d: %w", p.PID, ErrEnded)
	}
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

// HasTerminal tells whether a process has a controlling terminal. Processes of Slurm's batch scripts have no terminal;
// those of a shell in which a person types have one.
func HasTerminal(pid int) (bool, error) {
	s, err := procfs.ReadStat(pid)
	return s.Terminal != 0, err
}

// ParentPID returns the PID of a process's parent.
func ParentPID(pid int) (int, error) {
	s, err := procfs.ReadStat(pid)
	return s.Parent, err
}

// Process is a process of this node. After the end of a process the kernel gives its PID to another one, of any user: the PID
// and the time of its start belong to one process only.
type Process struct {
	PID     int
	Started uint64 // in ticks of the kernel's clock since the node's start: field starttime of proc_pid_stat(5)
}

// NewProcess returns the process that has the PID now.
func NewProcess(pid int) (Process, error) {
	started, err := procfs.StartTime(pid)
	return Process{pid, started}, err
}

// HasEnded tells whether the process has ended, perhaps without its parent's notice. If not, data that was read below
// /proc/PID before the call was this process's.
func (p Process) HasEnded() bool {
	now, err := procfs.ReadStat(p.PID)
	if err != nil {
		return procfs.IsEnded(err)
	}
	return now.Start != p.Started || now.HasEnded()
}

// RunningPrograms returns the programs of a capsule that have started and not ended.
func RunningPrograms(ctx context.Context, c *capsule.Capsule) ([]capsule.Program, error) {
	all, err := c.Programs(ctx)
	return slices.DeleteFunc(all, func(p capsule.Program) bool { return p.Ended || p.Waiting }), err
}
