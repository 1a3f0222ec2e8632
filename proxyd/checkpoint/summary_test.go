// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"fmt"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
)

// TestSummary: an obstacle of all ranks of a job stands once in the job's log and comment, and in the error of a checkpoint.
func TestSummary(t *testing.T) {
	var found []processes.Obstacle
	for rank := range 64 {
		found = append(found, processes.Obstacle{
			Program: fmt.Sprintf("s0-1.%d", rank), Node: fmt.Sprintf("n%d", rank%8), PID: 300 + rank, Name: "python3", What: "uses io_uring", Cure: "switch it off",
		})
	}
	found = append(found, processes.Obstacle{PID: 400, Name: "python3", What: "serves a file system"}, processes.Obstacle{PID: 401, Name: "sleep", What: "uses io_uring"},
		processes.Obstacle{What: "process 9 is run by a debugger"}, processes.Obstacle{What: "process 9 is run by a debugger"})
	want := "python3 (PID 300 and 63 more) uses io_uring: switch it off; python3 (PID 400) serves a file system; sleep (PID 401) uses io_uring; process 9 is run by a debugger"
	if got := summarizeObstacles(found); got != want {
		t.Errorf("summarizeObstacles = %q, want %q", got, want)
	}
	if got := (&ObstacleError{Obstacles: found}).Error(); got != want {
		t.Errorf("the error of a checkpoint is %q, want %q", got, want)
	}
	if got := summarizeObstacles(nil); got != "" {
		t.Errorf("without obstacles: %q", got)
	}
}
