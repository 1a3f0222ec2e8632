// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"errors"
	"fmt"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/criu"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// TestFoundByCRIU: what only CRIU finds in a dump on another node is an obstacle like those that the looks find, with
// its cure, and is shown until the next run.
func TestFoundByCRIU(t *testing.T) {
	part := criu.Part{PID: 7, Name: "python3", What: "is run by a debugger", Cure: "end the debugger"}
	dumped := &criu.Error{Op: "dump", PID: 2, Obstacle: part.String(), Part: &part, Err: errors.New("exit status 1")}
	marked := fmt.Errorf("capsule 1: program s0-0.1: %w", markDumpError("s0-0.1", dumped))
	if !errors.Is(marked, rpc.ErrObstacle) || !errors.As(marked, new(*criu.Error)) {
		t.Fatalf("the error of the dump is %v: want both an obstacle and criu's error", marked)
	}
	var sent *rpc.Error
	errors.As(marked, &sent)
	c := conductorOn(t, "n1", t.TempDir())
	c.Remote = answers{calls.Dump.Name(): &rpc.Error{Kind: rpc.ErrObstacle, Text: marked.Error(), Obstacles: sent.Obstacles}}
	j := c.jobFor(7)
	j.beginRun(recordOf(7), 0, []string{"n1", "n2"}, nil)
	a := &attempt{j: j, id: store.ID{JobID: store.PlainJob(c.Cluster, 7), Number: 1}, nodes: []string{"n2"}}
	err := a.dumpEverywhere(t.Context(), calls.DumpArgs{})
	var o *ObstacleError
	if !errors.As(err, &o) || !o.ByCRIU || o.Error() != "python3 (PID 7) is run by a debugger: end the debugger" {
		t.Fatalf("dumpEverywhere = %v, want an ObstacleError with the cure", err)
	}
	shows := func(want int) {
		t.Helper()
		v, err := c.jobView(t.Context(), 7)
		if err != nil {
			t.Fatal(err)
		}
		if len(v.Obstacles) != want || want > 0 && (v.Obstacles[0].Node != "n2" || v.Obstacles[0].Program != "s0-0.1" || v.Obstacles[0].Since.IsZero()) {
			t.Errorf("obstacles shown: %+v, want %d, of s0-0.1 on n2", v.Obstacles, want)
		}
	}
	shows(1)
	j.beginRun(recordOf(7), 0, []string{"n1", "n2"}, nil)
	shows(1)
	j.beginRun(recordOf(7), 1, []string{"n1", "n2"}, nil)
	shows(0)
	for name, other := range map[string]error{
		"a node without room":        &criu.Error{Op: "dump", Obstacle: "no space left on device", Err: errors.New("exit status 1")},
		"criu that nothing explains": &criu.Error{Op: "dump", Err: errors.New("exit status 1")},
	} {
		if err := markDumpError("batch", other); errors.Is(err, rpc.ErrObstacle) {
			t.Errorf("%s is an obstacle of the job: %v", name, err)
		}
	}
}
