// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/criu"
	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// CRIU dumps each program by itself: a unix socket of which another program has the other end has no peer in the image.

// findPeers returns, for each program, the first process that has a unix socket connected to another program of the
// capsule. members are the processes of each of the programs. Datagram sockets, which CRIU dumps without their peers,
// and sockets with which a program began, which are external for CRIU, are left out.
func findPeers(ctx context.Context, init int, programs []capsule.Program, members [][]int) []Obstacle {
	if len(programs) < 2 {
		return nil
	}
	sockets, err := unixSockets(fmt.Sprintf("/proc/%d/ns/net", init), func(s unixSocket) bool { return s.peer != 0 && !s.datagram })
	if err != nil || len(sockets) == 0 {
		return nil // CRIU finds them, if there are any
	}
	holders := findSocketHolders(ctx, sockets, members)
	var found []Obstacle
	for i, p := range programs {
		var first *Obstacle
		for link, by := range holders {
			pid, holds := by[i]
			if !holds || slices.Contains(p.Stdio[:], link) || first != nil && first.PID <= capsulePID(init, pid) {
				continue
			}
			s := sockets[link]
			other, connected := otherHolder(holders[socketLink(s.peer)], i)
			if !connected {
				continue
			}
			name := showName(cmp.Or(s.name, sockets[socketLink(s.peer)].name))
			first = &Obstacle{
				Program: p.Name, PID: capsulePID(init, pid), Name: commandName(pid), Cure: criu.CurePeer,
				What: fmt.Sprintf("is connected to program %s of the job by a unix socket, %s", programs[other].Name, name),
			}
		}
		if first != nil {
			found = append(found, *first)
		}
	}
	return found
}

// findSocketHolders returns the first process of each program, by the program's number, that has each of the sockets.
// At most maxOutside descriptors count.
func findSocketHolders(ctx context.Context, sockets map[string]unixSocket, members [][]int) map[string]map[int]int {
	holders, n := map[string]map[int]int{}, 0
	for i, pids := range members {
		for _, pid := range pids {
			err := visitDescriptors(ctx, pid, func(d procfs.Descriptor) bool {
				link, err := d.Link()
				if _, ok := sockets[link]; err != nil || !ok {
					return true
				}
				if holders[link] == nil {
					holders[link] = map[int]int{}
				}
				if _, known := holders[link][i]; !known {
					holders[link][i] = pid
				}
				n++
				return n < maxOutside
			})
			if err != nil && ctx.Err() != nil || n >= maxOutside {
				return holders
			}
		}
	}
	return holders
}

// otherHolder returns a program that has a socket, which the program of a number has not; false if that program has the
// socket, too, or none has.
func otherHolder(by map[int]int, number int) (other int, found bool) {
	if _, has := by[number]; has {
		return 0, false
	}
	other = -1
	for i := range by {
		if other < 0 || i < other {
			other = i
		}
	}
	return other, other >= 0
}
