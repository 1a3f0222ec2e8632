// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/criu"
)

// CRIU dumps and restores each program with an IPC namespace of its own: a segment of System V shared memory that two programs have
// attached is two segments after a restore. Queues and semaphores do not show which processes use them.

const sharedSegment = "shares System V memory with another program of the job"

// findSharedSegments returns the first process of each program that has a segment which another program has, too. members are the
// processes of each of the programs.
func findSharedSegments(ctx context.Context, init int, programs []capsule.Program, members [][]int) []Obstacle {
	if len(programs) < 2 {
		return nil
	}
	holders := segmentHolders{}
	for i := range programs {
		for _, pid := range members[i] {
			if ctx.Err() != nil {
				return nil
			}
			for _, segment := range attachedSegments(pid) {
				holders.addHolder(segment, i, pid)
			}
		}
	}
	named := holders.findSharing()
	var found []Obstacle
	for i, p := range programs {
		if pid, shares := named[i]; shares {
			found = append(found, Obstacle{Program: p.Name, PID: capsulePID(init, pid), Name: commandName(pid), What: sharedSegment, Cure: criu.CureSegment})
		}
	}
	return found
}

// segmentHolders has, for each segment, the first process of each program that has the segment.
type segmentHolders map[string]map[int]int

// addHolder notes that a process of program i has a segment, unless too many segments are known.
func (h segmentHolders) addHolder(segment string, i, pid int) {
	if h[segment] == nil {
		if len(h) >= maxSegmentsKnown {
			return
		}
		h[segment] = map[int]int{}
	}
	if _, known := h[segment][i]; !known {
		h[segment][i] = pid
	}
}

// findSharing returns a process of each program that has a segment which another program has, too: that with the
// lowest PID.
func (h segmentHolders) findSharing() map[int]int {
	named := map[int]int{}
	for _, by := range h {
		if len(by) < 2 {
			continue
		}
		for i, pid := range by {
			if had, known := named[i]; !known || pid < had {
				named[i] = pid
			}
		}
	}
	return named
}

// Bounds of the segments that are remembered of a process, and of a capsule. The kernel allows 4096 segments in a
// namespace (shmmni).
const (
	maxSegments      = 256
	maxSegmentsKnown = 4096
)

// attachedSegments returns the System V segments that a process has attached. Most processes have no shared memory at
// all: their maps are not read.
func attachedSegments(pid int) []string {
	if !hasSharedMemory(pid) {
		return nil
	}
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/ipc", pid))
	if err != nil {
		return nil // the process has ended
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil
	}
	defer f.Close()
	var all []string
	for s := bufio.NewScanner(f); s.Scan() && len(all) < maxSegments; {
		// address perms offset dev inode path; the inode is the segment's number.
		fields := strings.Fields(s.Text())
		if len(fields) == 7 && strings.HasPrefix(fields[5], "/SYSV") && fields[6] == "(deleted)" {
			all = append(all, namespace+" "+fields[3]+" "+fields[4])
		}
	}
	return all
}

// hasSharedMemory tells whether a process has pages of shared memory.
func hasSharedMemory(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false // the process has ended
	}
	_, rest, _ := strings.Cut(string(b), "\nRssShmem:")
	pages := strings.Fields(rest)
	return len(pages) > 0 && pages[0] != "0"
}
