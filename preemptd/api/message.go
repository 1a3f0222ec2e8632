// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/singularity-slurm/singularity-slurm/preemptd/action"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	"github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
)

// actionMessage returns the message of an action, without lines.
func actionMessage(a *journal.Action) *rpc.Action {
	return &rpc.Action{
		Id: a.ID, Kind: a.Kind, Job: a.Job, Who: a.Who, Why: a.Why, State: string(a.State), Step: a.Step, Problem: a.Problem,
		Created: timestampOf(a.Created), Ended: timestampOf(a.Ended), Doing: action.StepWords(a.Step), Target: action.TargetText(a.Args),
	}
}

func lineMessages(lines []journal.Line) []*rpc.Line {
	all := make([]*rpc.Line, len(lines))
	for i, l := range lines {
		all[i] = &rpc.Line{At: timestampOf(l.At), State: string(l.State), Step: l.Step, Attempt: int32(l.Attempt), Text: l.Text, Doing: action.StepWords(l.Step)} //nolint:gosec // counts tries
	}
	return all
}

func timestampOf(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
