// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Limit is a resource limit of a process.
type Limit struct {
	Resource int
	Soft     uint64
	Hard     uint64
}

// resources are the limits by their names in /proc/PID/limits.
var resources = map[string]int{
	"Max cpu time":          unix.RLIMIT_CPU,
	"Max file size":         unix.RLIMIT_FSIZE,
	"Max data size":         unix.RLIMIT_DATA,
	"Max stack size":        unix.RLIMIT_STACK,
	"Max core file size":    unix.RLIMIT_CORE,
	"Max resident set":      unix.RLIMIT_RSS,
	"Max processes":         unix.RLIMIT_NPROC,
	"Max open files":        unix.RLIMIT_NOFILE,
	"Max locked memory":     unix.RLIMIT_MEMLOCK,
	"Max address space":     unix.RLIMIT_AS,
	"Max file locks":        unix.RLIMIT_LOCKS,
	"Max pending signals":   11,
	"Max msgqueue size":     12,
	"Max nice priority":     13,
	"Max realtime priority": 14,
	"Max realtime timeout":  15,
}

// InheritedLimits are the limits that a process passes on to its children.
type InheritedLimits struct {
	Limits []Limit
	OOM    int // oom_score_adj
}

// ReadInheritedLimits reads the limits of a process.
func ReadInheritedLimits(pid int) (*InheritedLimits, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	if err != nil {
		return nil, err
	}
	adj, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
	if err != nil {
		return nil, err
	}
	oom, err := strconv.Atoi(strings.TrimSpace(string(adj)))
	if err != nil {
		return nil, err
	}
	return &InheritedLimits{parseLimits(string(b)), oom}, nil
}

// nameWidth is the width of the first column of /proc/PID/limits.
const nameWidth = 26

func parseLimits(text string) []Limit {
	var all []Limit
	for line := range strings.Lines(text) {
		if len(line) < nameWidth {
			continue
		}
		resource, known := resources[strings.TrimSpace(line[:nameWidth])]
		values := strings.Fields(line[nameWidth:])
		if !known || len(values) < 2 {
			continue
		}
		soft, err1 := limitValue(values[0])
		hard, err2 := limitValue(values[1])
		if err1 == nil && err2 == nil {
			all = append(all, Limit{resource, soft, hard})
		}
	}
	return all
}

func limitValue(s string) (uint64, error) {
	if s == "unlimited" {
		return unix.RLIM_INFINITY, nil
	}
	return strconv.ParseUint(s, 10, 64)
}

// setLimit sets a limit of this process, or comes as near as the kernel allows: root without
// CAP_SYS_RESOURCE cannot raise a hard limit.
func (l Limit) setLimit() error {
	want := unix.Rlimit{Cur: l.Soft, Max: l.Hard}
	if unix.Setrlimit(l.Resource, &want) == nil {
		return nil
	}
	var have unix.Rlimit
	if err := unix.Getrlimit(l.Resource, &have); err != nil {
		return err
	}
	want.Max = min(want.Max, have.Max)
	want.Cur = min(want.Cur, want.Max)
	return unix.Setrlimit(l.Resource, &want)
}
