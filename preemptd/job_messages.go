// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
)

// jobMessages describes the jobs of a snapshot in messages for people.
func jobMessages(s *sdk.Snapshot) []*rpc.Job {
	all := make([]*rpc.Job, len(s.Jobs))
	for i := range s.Jobs {
		j := &s.Jobs[i]
		all[i] = &rpc.Job{
			Id: int64(j.ID), Label: j.Label, Name: j.Name, User: j.User, Account: j.Account, Partition: j.Partition, Qos: j.QOS,
			Tier: j.Tier.String(), State: j.State.String(), HeldBy: j.HeldBy.String(), Action: j.Action,
			Gpus: int32(j.GPUs), Leased: int32(j.Leased), Requested: int32(j.Request), Restarts: int32(j.Restarts), //nolint:gosec // of one job
			Fraction: j.Fraction, Promised: j.Promised, Obstacle: j.Obstacle,
			Checkpoint: timestampOf(j.Checkpoint.At), Submitted: timestampOf(j.Submitted), Started: timestampOf(j.Started), Eligible: timestampOf(j.Eligible),
		}
		for _, share := range j.Shares {
			all[i].Nodes = append(all[i].Nodes, s.Nodes[share.Node].Name)
		}
	}
	return all
}

func timestampOf(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
