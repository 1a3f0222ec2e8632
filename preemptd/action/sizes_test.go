// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/preemptd/jobrequest"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// seeing is a proxyd that says how many GPUs the programs of a job see, by capsule.
type seeing []int

func (s seeing) Show(context.Context, *slurmrest.Job) (*rpc.Job, error) {
	shown := &rpc.Job{}
	for _, sees := range s {
		shown.Capsules = append(shown.Capsules, &rpc.Capsule{Gpus: uint32(sees)})
	}
	return shown, nil
}

func (s seeing) ShowWaiting(ctx context.Context, job *slurmrest.Job, _ []slurmrest.Node) (*rpc.Job, error) {
	return s.Show(ctx, job)
}

// TestSizeOfWaitingJob: a job that waits can have the GPUs that its programs see, though no GPU is idle, and no more;
// a job that has not begun can have all GPUs of a node.
func TestSizeOfWaitingJob(t *testing.T) {
	w := newWorld(t, true)
	j := w.openJournal(t)
	for _, name := range []string{"n1", "n2"} {
		w.srv.AddNode(slurmrest.Node{Name: name, State: slurmrest.NodeState{Base: "IDLE"}, GRES: "gpu:a100:8", GRESUsed: "gpu:a100:8"})
	}
	sizes := &Sizes{Slurm: w.srv.Client(t), Proxyd: seeing{4, 4}, Journal: j}
	for _, c := range []struct {
		restarts, gpus int64
		said           string
	}{
		{1, 4, ""}, {1, 5, "its programs see 4 there"}, {0, 8, ""}, {0, 9, "the most on a node is 8"},
	} {
		now := w.currentJob()
		now.Restarts = c.restarts
		err := sizes.CheckAction(t.Context(), &now, "resize", Args{GPUs: c.gpus}, true)
		if (err == nil) != (c.said == "") || err != nil && !strings.Contains(err.Error(), c.said) {
			t.Errorf("%d GPUs after %d restarts: %v, want %q", c.gpus, c.restarts, err, c.said)
		}
	}
}

// lending is a proxyd that shows each job as a lease of job 812.
type lending struct{ seeing }

func (lending) Show(context.Context, *slurmrest.Job) (*rpc.Job, error) {
	return &rpc.Job{Lends: &rpc.Lending{Job: 812, Node: "n1", Gpus: []uint32{0}}}, nil
}

// TestLeaseNotResized: a resize of a lease is refused in words that name the job to resize, in each direction.
func TestLeaseNotResized(t *testing.T) {
	w := newWorld(t, false)
	for _, name := range []string{"n1", "n2"} {
		w.srv.AddNode(slurmrest.Node{Name: name, State: slurmrest.NodeState{Base: "IDLE"}, GRES: "gpu:a100:8"})
	}
	job := w.currentJob()
	sizes := &Sizes{Slurm: w.srv.Client(t), Proxyd: lending{}, Journal: w.openJournal(t)}
	for _, gpus := range []int64{1, 2, 3} {
		err := sizes.CheckAction(t.Context(), &job, "resize", Args{GPUs: gpus}, true)
		var size *jobrequest.SizeError
		if !errors.As(err, &size) || !strings.Contains(err.Error(), fmt.Sprintf("resize job 812, or end the lease by scancel %d", w.id)) {
			t.Errorf("resize of a lease to %d GPUs: %v", gpus, err)
		}
	}
}

// TestUsableGPUs: a node knows how many GPUs the programs of a running job see; capsules that share a node share them.
func TestUsableGPUs(t *testing.T) {
	w := newWorld(t, false)
	job := w.currentJob()
	for _, c := range []struct {
		sees seeing
		want int64
	}{{seeing{4, 4}, 4}, {seeing{4, 3, 2, 2}, 7}, {nil, 0}} {
		sizes := &Sizes{Slurm: w.srv.Client(t), Proxyd: c.sees, Journal: w.openJournal(t)}
		if got, err := sizes.UsableGPUs(t.Context(), &job); err != nil || got != c.want {
			t.Errorf("UsableGPUs of a job on 2 nodes with %v = %d, %v, want %d", c.sees, got, err, c.want)
		}
	}
}

// TestSizesRefused: a size that a job cannot have is refused at the action's first step, or before its checkpoint if
// the GPUs are not idle any more then. The job runs on, and has not been touched.
func TestSizesRefused(t *testing.T) {
	up := slurmrest.NodeState{Base: "IDLE"}
	for name, c := range map[string]struct {
		args  Args
		sees  seeing
		nodes []slurmrest.Node
		said  string
	}{
		"more than its programs see": {
			Args{GPUs: 3},
			seeing{2, 2},
			[]slurmrest.Node{{Name: "n1", GRES: "gpu:a100:8"}, {Name: "n2", GRES: "gpu:a100:8"}},
			"its programs see 2 there, and can use no more",
		},
		"more than nodes have": {
			Args{GPUs: 8},
			seeing{8, 8},
			[]slurmrest.Node{{Name: "n1", GRES: "gpu:a100:4"}, {Name: "n2", GRES: "gpu:a100:4"}},
			"no node has so many; the most on a node is 4",
		},
		"more than is idle": {
			Args{GPUs: 4},
			seeing{8, 8},
			[]slurmrest.Node{{Name: "n1", GRES: "gpu:a100:4", GRESUsed: "gpu:a100:3"}, {Name: "n2", GRES: "gpu:a100:4", GRESUsed: "gpu:a100:2"}},
			"only 1 node has so many idle",
		},
		"more nodes than it began on": {
			Args{NodeCount: 3},
			seeing{2, 2},
			[]slurmrest.Node{{Name: "n1", GRES: "gpu:a100:4"}, {Name: "n2", GRES: "gpu:a100:4"}, {Name: "n3", GRES: "gpu:a100:4"}},
			"began on 2 nodes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, false)
			j := w.openJournal(t)
			for _, n := range c.nodes {
				n.State = up
				w.srv.AddNode(n)
			}
			r := w.newRunner(t, j, nil)
			r.Sizes = &Sizes{Slurm: w.srv.Client(t), Proxyd: c.sees, Journal: j}
			a, err := r.Run(t.Context(), w.beginAction(t, j, "resize", c.args))
			if err != nil || a.State != journal.Undone || !strings.Contains(a.Problem, c.said) {
				t.Fatalf("resize: %v; the action is %s, problem %q, want undone", err, a.State, a.Problem)
			}
			if now := w.currentJob(); !isRunning(&now) || now.Restarts != 0 || w.countCheckpoints(t) != 0 {
				t.Errorf("%d checkpoints, the job: %+v", w.countCheckpoints(t), now)
			}
		})
	}
}

// TestNoNodes: a job that Slurm holds because no nodes fit its new request gets its old request back, and is released.
func TestNoNodes(t *testing.T) {
	w := newWorld(t, false)
	j := w.openJournal(t)
	w.full = true
	r := w.newRunner(t, j, func(point string) error {
		if point == "after save going start" {
			w.srv.EditJob(w.id, func(j *slurmrest.Job) { byUser(j); j.Reason = noNodesReason })
		}
		return nil
	})
	a, err := r.Run(t.Context(), w.beginAction(t, j, "resize", Args{GPUs: 9}))
	if err != nil || a.State != journal.Undone || !strings.Contains(a.Problem, noNodesReason) {
		t.Fatalf("resize on full nodes: %v; the action is %s, problem %q, want undone", err, a.State, a.Problem)
	}
	if now := w.currentJob(); now.Held || now.TRESPerNode != "gres/gpu:a100:2" {
		t.Errorf("the job: %+v", now)
	}
}
