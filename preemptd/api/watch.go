// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"time"

	"google.golang.org/grpc"

	"github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
)

// Watch sends an action until the action has ended, or the caller has gone. The journal is
// polled: another preemptd may carry the action out by now.
func (s *Server) Watch(req *rpc.WatchRequest, stream grpc.ServerStreamingServer[rpc.Action]) error {
	ctx := stream.Context()
	a, err := s.visibleAction(ctx, "watch", req.GetId())
	if err != nil {
		return rpc.Status(err)
	}
	tick := time.NewTicker(s.opt.Poll)
	defer tick.Stop()
	sent, revision := 0, int64(-1)
	for {
		if a.Revision != revision {
			lines, err := s.opt.Journal.Lines(ctx, a.ID)
			if err != nil {
				return rpc.Status(err)
			}
			m := actionMessage(&a)
			m.Lines = lineMessages(lines[min(sent, len(lines)):])
			if err := stream.Send(m); err != nil {
				return err
			}
			sent, revision = len(lines), a.Revision
		}
		if a.State.Ended() {
			return nil
		}
		select {
		case <-ctx.Done():
			return rpc.Status(ctx.Err())
		case <-tick.C:
		}
		if a, err = s.opt.Journal.Action(ctx, a.ID); err != nil {
			return rpc.Status(err)
		}
	}
}
