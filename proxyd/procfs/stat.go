// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
)

// Stat is the content of /proc/PID/stat, for a process or a thread.
type Stat struct {
	State    byte // the letter of proc(5): 'T' is stopped by a signal, 'Z' and 'X' have ended
	Parent   int
	Session  int
	Terminal uint32 // device number of the controlling terminal, 0 without a terminal
	Start    uint64 // in ticks of the kernel's clock since boot: with the PID, the identity of a process
}

// HasEnded tells whether the process has ended; its parent may not have waited for it yet.
func (s Stat) HasEnded() bool { return s.State == 'Z' || s.State == 'X' }

// ReadStat reads /proc/PID/stat. The error for a process that does not exist wraps os.ErrNotExist, or ESRCH for a process that
// ends meanwhile: IsEnded is true of both.
func ReadStat(pid int) (Stat, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Stat{}, err
	}
	s, err := parseStat(b)
	if err != nil {
		return Stat{}, fmt.Errorf("/proc/%d/stat: %w", pid, err)
	}
	return s, nil
}

// StartTime returns when a process was started, in ticks since boot. The errors are those of ReadStat.
func StartTime(pid int) (uint64, error) {
	s, err := ReadStat(pid)
	return s.Start, err
}

var errStat = errors.New("not a stat line")

// parseStat parses /proc/PID/stat. The command name may contain anything, also parentheses and line feeds; the text after its
// last parenthesis is the kernel's.
func parseStat(b []byte) (Stat, error) {
	name, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if name < 1 || end < name {
		return Stat{}, errStat
	}
	fields := bytes.Fields(b[end+1:])
	const afterName = 3 // number of the first of them, in proc(5)
	if len(fields) <= 22-afterName || len(fields[0]) != 1 {
		return Stat{}, errStat
	}
	parent, err1 := strconv.Atoi(string(fields[4-afterName]))
	session, err2 := strconv.Atoi(string(fields[6-afterName]))
	terminal, err3 := strconv.ParseInt(string(fields[7-afterName]), 10, 32) // the kernel writes the number with a sign
	start, err4 := strconv.ParseUint(string(fields[22-afterName]), 10, 64)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return Stat{}, fmt.Errorf("%w: %w", errStat, err)
	}
	return Stat{fields[0][0], parent, session, uint32(terminal), start}, nil
}
