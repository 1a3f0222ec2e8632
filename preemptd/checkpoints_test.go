// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/singularity-slurm/singularity-slurm/preemptd/cluster"
	"github.com/singularity-slurm/singularity-slurm/preemptd/web"
	proxyd "github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

type looks func() (cluster.Observation, error)

func (l looks) Look(context.Context) (cluster.Observation, error) { return l() }

// TestSeenCheckpoints: the page has the checkpoints of the last look that saw Slurm.
func TestSeenCheckpoints(t *testing.T) {
	made := time.Unix(1790000000, 0).UTC()
	checkpoint := &proxyd.Checkpoint{
		Number: 3, Created: timestamppb.New(made), Logical: 100, Stored: 10, Reason: "asked", Nodes: []string{"n1"}, State: "uploading", Problem: "damaged",
		Phases: []*proxyd.PhaseTime{{Phase: "cut", Took: durationpb.New(time.Second)}, {Phase: "dump", Took: durationpb.New(2 * time.Second)}},
	}
	seen := cluster.Observation{Checkpoints: map[string][]*proxyd.Checkpoint{"812_3": {checkpoint}}}
	var kept seenCheckpoints
	if got := kept.ofJob("812_3"); got != nil {
		t.Errorf("before a look: %+v", got)
	}
	want := []web.Checkpoint{{
		Number: 3, Made: made, Took: 3 * time.Second, Captured: 100, Stored: 10, Reason: "asked", Nodes: []string{"n1"}, Uploading: true, Problem: "damaged",
	}}
	for _, c := range []struct {
		seen cluster.Observation
		err  error
		want []web.Checkpoint
	}{
		{seen, nil, want}, {cluster.Observation{}, errors.New("slurmrestd is away"), want}, {cluster.Observation{}, &cluster.ProxydError{Err: errors.New("away")}, nil},
	} {
		if _, err := kept.wrapObserver(looks(func() (cluster.Observation, error) { return c.seen, c.err })).Look(t.Context()); !errors.Is(err, c.err) {
			t.Error(err)
		}
		if got := kept.ofJob("812_3"); !reflect.DeepEqual(got, c.want) {
			t.Errorf("after %v: %+v, want %+v", c.err, got, c.want)
		}
	}
	if got := kept.ofJob("812"); got != nil {
		t.Errorf("of another job: %+v", got)
	}
	obstacles := obstacleList([]*proxyd.Obstacle{{Program: "batch", Node: "n1", Pid: 7, What: "a connection", Cure: "close it"}, {What: "a container"}})
	if want := []web.Obstacle{{Where: "batch, n1, process 7", What: "a connection", Cure: "close it"}, {What: "a container"}}; !reflect.DeepEqual(obstacles, want) {
		t.Errorf("obstacleList = %+v", obstacles)
	}
}
