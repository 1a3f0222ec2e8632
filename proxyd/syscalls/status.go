// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package syscalls

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// status has the fields of /proc/TID/status that Rewind needs.
type status struct {
	innermost int // the thread's number in its own PID namespace
	filtered  bool

	pending, shared, blocked, caught uint64
}

func readStatus(tid int) (status, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	if err != nil {
		return status{}, err
	}
	return parseStatus(string(b)), nil
}

func parseStatus(text string) status {
	var s status
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		words := strings.Fields(value)
		if len(words) == 0 {
			continue
		}
		last := words[len(words)-1]
		switch key {
		case "NSpid":
			s.innermost, _ = strconv.Atoi(last)
		case "Seccomp":
			s.filtered = last != "0"
		case "SigPnd":
			s.pending = parseSignals(last)
		case "ShdPnd":
			s.shared = parseSignals(last)
		case "SigBlk":
			s.blocked = parseSignals(last)
		case "SigCgt":
			s.caught = parseSignals(last)
		}
	}
	return s
}

func parseSignals(hex string) uint64 {
	set, _ := strconv.ParseUint(hex, 16, 64) // the kernel writes only hexadecimal numbers
	return set
}

// awaitsHandler tells whether a signal that the thread has a handler for is pending.
func (s status) awaitsHandler() bool {
	return (s.pending|s.shared)&^s.blocked&s.caught != 0
}
