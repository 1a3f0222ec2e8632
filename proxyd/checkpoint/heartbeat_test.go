// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// countingNode is a node that counts its calls.
type countingNode struct{ times atomic.Int32 }

// Call implements NodeCaller.
func (h *countingNode) Call(_ context.Context, _ string, req *rpc.CallRequest) (*rpc.CallReply, error) {
	if req.GetHeartbeat() != nil {
		h.times.Add(1)
	}
	return &rpc.CallReply{}, nil
}

// TestHeartbeat: a leader sends heartbeats from its dump to its end, and not for ever.
func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &countingNode{}
		c := &Conductor{Config: Config{Node: "n1"}, Deps: Deps{Remote: h}}
		j := &job{c: c.linkPartsToConductor(), id: 7}
		a := &attempt{j: j.linkPartsToJob(), nodes: []string{"n2"}, log: slog.New(slog.DiscardHandler)}
		a.endHeartbeat()
		ctx, cancel := context.WithCancel(t.Context())
		a.startHeartbeat(ctx)
		cancel() // of the phase that began the heartbeat
		time.Sleep(leaderTimeout)
		if n := h.times.Load(); n < 3 {
			t.Errorf("%d heartbeats within leaderTimeout, want 3 or more", n)
		}
		a.endHeartbeat()
		n := h.times.Load()
		time.Sleep(leaderTimeout)
		if h.times.Load() != n {
			t.Error("heartbeats go on after endHeartbeat")
		}
		a.startHeartbeat(t.Context())
		time.Sleep(heartbeatLimit + heartbeatInterval)
		n = h.times.Load()
		time.Sleep(leaderTimeout)
		if h.times.Load() != n {
			t.Error("a hanging leader sends heartbeats for ever")
		}
		a.endHeartbeat()
	})
}

// TestHeartbeatHere: a node ends its membership after leaderTimeout without a heartbeat, not before.
func TestHeartbeatHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := &Conductor{Config: Config{Node: "n2", Cluster: "mini"}, daemonCtx: life, jobs: jobTable{}}
		c.linkPartsToConductor()
		nodes := []string{"n1", "n2"}
		j := &job{
			c: c, id: 7, log: slog.New(slog.DiscardHandler),
			run: runs.NewRunAt(runs.Snapshot{Placement: records.Placement{FirstRun: nodes, ThisRun: nodes}}),
		}
		c.jobs.addJob(j.linkPartsToJob())
		m := &membership{id: (&lab{}).checkpointID(3), done: make(chan struct{})}
		j.participant.mu.Lock()
		j.participant.now = m
		j.participant.armLeaderTimeout(m)
		j.participant.mu.Unlock()
		for range 4 * leaderTimeout / heartbeatInterval {
			time.Sleep(heartbeatInterval)
			if _, err := callNode(t.Context(), c, "n2", 7, 3, calls.Heartbeat, calls.Empty{}); err != nil || isClosed(m.done) {
				t.Fatalf("membership over: %v, error %v", isClosed(m.done), err)
			}
		}
		heard := time.Now()
		<-m.done
		if d := time.Since(heard); d < leaderTimeout || d > leaderTimeout+time.Second {
			t.Errorf("membership ended after %s of silence", d)
		}
		if _, err := callNode(t.Context(), c, "n2", 7, 3, calls.Heartbeat, calls.Empty{}); err == nil {
			t.Error("a heartbeat revived the membership")
		}
	})
}
