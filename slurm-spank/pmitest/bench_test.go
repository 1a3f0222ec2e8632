// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package pmitest

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkFence measures the part of MPI_Init that waits for PMI: all tasks put an address of 200 bytes, and
// a fence sends the addresses to all. The servers run under sanitizers, so that the result is only an upper
// bound, and shows the growth with the number of ranks.
func BenchmarkFence(b *testing.B) {
	for _, size := range []int{2, 16, 128} {
		b.Run(fmt.Sprint("ranks=", size), func(b *testing.B) {
			place := startHub(b)
			var tasks []*task
			for rank := range size {
				tasks = append(tasks, startTask(b, place, rank, size, 0))
				tasks[rank].initialize(1)
			}
			address := strings.Repeat("a", 200)
			for b.Loop() {
				for rank, s := range tasks {
					s.askServer(1, fmt.Sprintf("cmd=put kvsname=s0-1 key=k%d value=%s", rank, address))
				}
				for _, s := range tasks {
					s.sendCommand(1, "cmd=barrier_in")
				}
				for _, s := range tasks {
					if got := s.readAnswer(1); got != "cmd=barrier_out rc=0" {
						b.Fatal(got)
					}
				}
			}
		})
	}
}
