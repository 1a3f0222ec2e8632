// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"

	"github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
)

// Snapshot returns the last snapshot that policies saw: for operators, because a snapshot contains
// all jobs.
func (s *Server) Snapshot(ctx context.Context, _ *rpc.SnapshotRequest) (*rpc.SnapshotReply, error) {
	err := s.requireOperator(ctx, "policy record")
	if err != nil {
		return nil, rpc.Status(err)
	}
	data, err := s.currentSnapshot()
	return &rpc.SnapshotReply{Snapshot: data}, rpc.Status(err)
}

// Try asks policies for their intents. Callers of Try are trusted with a program of their own, in a process that is
// bounded.
func (s *Server) Try(ctx context.Context, req *rpc.TryRequest) (*rpc.TryReply, error) {
	err := s.requireOperator(ctx, "policy test")
	if err == nil && len(req.GetSnapshot()) == 0 {
		req.Snapshot, err = s.currentSnapshot()
	}
	if err != nil {
		return nil, rpc.Status(err)
	}
	reply, err := s.opt.Try(ctx, req)
	return reply, rpc.Status(err)
}

func (s *Server) currentSnapshot() ([]byte, error) {
	data, err := s.opt.Snapshot()
	if err == nil && len(data) == 0 {
		err = rpc.Errorf(rpc.ErrBusy, "preemptd has not looked at the cluster yet")
	}
	return data, err
}

// requireOperator refuses ordinary users.
func (s *Server) requireOperator(ctx context.Context, what string) error {
	who, err := s.identifyCaller(ctx)
	if err == nil && !who.operator {
		err = s.denyRequest(who, what, "it shows everybody's jobs; it is for operators")
	}
	return err
}
