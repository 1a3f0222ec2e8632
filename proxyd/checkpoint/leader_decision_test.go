// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// TestLeaderComesBack: a node on which Slurm has ended the job waits for the leader's daemon
// while that restarts.
func TestLeaderComesBack(t *testing.T) {
	l := newLab(t)
	n2 := l.bootNode("n2", filepath.Join(t.TempDir(), "stage"), nil)
	asked := make(chan string)
	n2.Remote = counted{l, asked}
	j := n2.jobFor(7)
	nodes := []string{"n1", "n2"}
	j.run.BeginNext(&records.Record{Job: 7, Slurm: "7", Nodes: nodes}, 0, nodes, nil)
	left := make(chan struct{})
	go func() {
		defer close(left)
		j.ending.awaitLeaderDecision(t.Context())
	}()
	for range 2 { // n1 is away
		select {
		case call := <-asked:
			if call != calls.AwaitDecision.Name() {
				t.Fatalf("unexpected call %q", call)
			}
		case <-left:
			t.Fatal("the node did not wait for the leader's answer")
		}
	}
	l.bootNode("n1", filepath.Join(t.TempDir(), "stage"), nil)
	for {
		select {
		case <-asked:
			continue
		case <-left: // n1 has answered that there is no such job
		}
		return
	}
}

// counted reports each question before passing the question on.
type counted struct {
	NodeCaller
	asked chan<- string
}

func (c counted) Call(ctx context.Context, node string, req *rpc.CallRequest) (*rpc.CallReply, error) {
	name := calls.NameOf(req)
	select {
	case c.asked <- name:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return c.NodeCaller.Call(ctx, node, req)
}
