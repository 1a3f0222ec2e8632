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
	holders := map[string]map[int]int{} // first process with a segment, of each program that has it
	for i := range programs {
		for _, pid := range members[i] {
			if ctx.Err() != nil {
				return nil
			}
			for _, segment := range attachedSegments(pid) {
				if holders[segment] == nil {
					if len(holders) >= maxSegmentsKnown {
						continue
					}
					holders[segment] = map[int]int{}
				}
				if _, known := holders[segment][i]; !known {
					holders[segment][i] = pid
				}
			}
		}
	}
	named := map[int]int{} // process by program
	for _, by := range holders {
		for i, pid := range by {
			if had, known := named[i]; len(by) > 1 && (!known || pid < had) {
				named[i] = pid
			}
		}
	}
	var found []Obstacle
	for i, p := range programs {
		if pid, shares := named[i]; shares {
			found = append(found, Obstacle{Program: p.Name, PID: capsulePID(init, pid), Name: commandName(pid), What: sharedSegment, Cure: criu.CureSegment})
		}
	}
	return found
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
