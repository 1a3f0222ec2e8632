// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// resuming are the nodes that are told to go on.
type resuming chan string

// Call implements Remote.
func (r resuming) Call(_ context.Context, node string, req *rpc.CallRequest) (*rpc.CallReply, error) {
	if req.GetResume() != nil {
		r <- node
	}
	return &rpc.CallReply{}, nil
}

// TestFrozenTooLate: programs that are frozen after the end of their attempt are thawed again.
func TestFrozenTooLate(t *testing.T) {
	c := (&Conductor{Config: Config{Node: "n1"}, daemonCtx: t.Context()}).wireParts()
	told := make(resuming, 9)
	c.Remote = told
	id := (&lab{}).checkpointID(3)
	j := (&job{c: c, id: 7, log: slog.New(slog.DiscardHandler), run: runs.NewRunAt(runs.Snapshot{Placement: records.Placement{FirstRun: []string{"n1", "n2"}, ThisRun: []string{"n1", "n2"}}})}).wireParts()
	nothing := func() error { return nil }
	if err := j.part.freezeUnlessOver(id, func() error { t.Error("freezes without a membership"); return nil }); !errors.Is(err, errOtherAttempt) {
		t.Error(err)
	}
	m := &membership{id: id, done: make(chan struct{})}
	j.part.now = m
	if err := j.part.freezeUnlessOver(id, nothing); err != nil {
		t.Error(err)
	}
	newer := &membership{id: (&lab{}).checkpointID(4)}
	if err := j.part.freezeUnlessOver(id, func() error { j.part.now = newer; return nil }); err != nil {
		t.Error(err)
	}
	c.background.Wait()
	if len(told) != 0 {
		t.Errorf("%d nodes were told to resume, want none", len(told))
	}
	j.part.now = m
	err := j.part.freezeUnlessOver(id, func() error { return j.part.resumeHere(t.Context(), id) })
	if !errors.Is(err, errOtherAttempt) {
		t.Error(err)
	}
	c.background.Wait() // for the capsules of this node, of which there are none
	if len(told) != 1 || <-told != "n2" {
		t.Error("the other node was not told to resume the job")
	}
}
