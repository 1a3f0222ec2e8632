// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package leader finds and asks the nodes' proxyds: for a job, the proxyd of the node that leads its checkpoints.
package leader

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// Finder finds and asks leaders. A Finder is safe for concurrent use and keeps no connection.
type Finder struct {
	Node  func(ctx context.Context, name string) (slurmrest.Node, error)
	Port  string
	Here  string // the name of this host
	Coder munge.Coder
}

// Checkpoint makes a checkpoint of a running job, which stands still for a while until the job is
// requeued.
func (f *Finder) Checkpoint(ctx context.Context, job *slurmrest.Job, reason string) (*rpc.Checkpoint, error) {
	var made *rpc.Checkpoint
	err := f.withLeader(ctx, job, func(c *rpc.Client) error {
		var err error
		made, err = c.Checkpoint(ctx, &rpc.CheckpointRequest{Job: job.Label(), Reason: reason, HoldAfterwards: true}, nil)
		return err
	})
	return made, err
}

// RunOn has a running job run on that stands still after a checkpoint.
func (f *Finder) RunOn(ctx context.Context, job *slurmrest.Job) error {
	return f.withLeader(ctx, job, func(c *rpc.Client) error { return c.RunOn(ctx, job.Label()) })
}

// Lend has a running job have so many GPUs on each of its nodes, by jobs of its user that lend it theirs. If a node
// cannot, the other nodes have as many as before.
func (f *Finder) Lend(ctx context.Context, job *slurmrest.Job, gpus int64, qos string) ([]uint32, error) {
	nodes, err := slurmrest.Hosts(job.Nodes)
	if err != nil {
		return nil, err
	}
	replies, errs := make([]*rpc.LendReply, len(nodes)), make([]error, len(nodes))
	var all sync.WaitGroup
	for i, node := range nodes {
		all.Go(func() { replies[i], errs[i] = f.lendAt(ctx, node, job, gpus, qos) })
	}
	all.Wait()
	var leases []uint32
	for _, reply := range replies {
		leases = append(leases, reply.GetLeases()...)
	}
	if err = errors.Join(errs...); err == nil {
		return leases, nil
	}
	for i, node := range nodes {
		if had := replies[i].GetHad(); errs[i] == nil && had > 0 && had != gpus {
			_, back := f.lendAt(ctx, node, job, had, qos)
			err = errors.Join(err, back)
		}
	}
	return nil, err
}

// lendAt has a running job have so many GPUs on a node of the job.
func (f *Finder) lendAt(ctx context.Context, node string, job *slurmrest.Job, gpus int64, qos string) (reply *rpc.LendReply, err error) {
	err = f.atNode(ctx, node, func(c *rpc.Client) error {
		reply, err = c.Lend(ctx, &rpc.LendRequest{Job: job.Label(), Gpus: gpus, Qos: qos})
		return err
	})
	return reply, err
}

// Checkpoints lists the checkpoints of a running job.
func (f *Finder) Checkpoints(ctx context.Context, job *slurmrest.Job) ([]*rpc.Checkpoint, error) {
	var all []*rpc.Checkpoint
	err := f.withLeader(ctx, job, func(c *rpc.Client) error {
		var err error
		all, err = c.Checkpoints(ctx, job.Label())
		return err
	})
	return all, err
}

// Show tells of a running job.
func (f *Finder) Show(ctx context.Context, job *slurmrest.Job) (*rpc.Job, error) {
	var shown *rpc.Job
	err := f.withLeader(ctx, job, func(c *rpc.Client) error {
		var err error
		shown, err = c.Show(ctx, job.Label())
		return err
	})
	return shown, err
}

// nodesToAsk is how many nodes are tried for a question that any of them could answer.
const nodesToAsk = 3

// connectTimeout is how long each node may take to accept a connection.
const connectTimeout = 2 * time.Second

// AllCheckpoints lists the checkpoints of all jobs: every node sees the same, so the first that answers
// is asked.
func (f *Finder) AllCheckpoints(ctx context.Context, nodes []slurmrest.Node) ([]*rpc.Checkpoint, error) {
	var all []*rpc.Checkpoint
	err := f.atAnyNode(ctx, nodes, func(c *rpc.Client) error {
		var err error
		all, err = c.Checkpoints(ctx, "")
		return err
	})
	return all, err
}

// ShowWaiting tells of a job that does not run, and so has no leader: every node sees the job's record.
func (f *Finder) ShowWaiting(ctx context.Context, job *slurmrest.Job, nodes []slurmrest.Node) (*rpc.Job, error) {
	var shown *rpc.Job
	err := f.atAnyNode(ctx, nodes, func(c *rpc.Client) error {
		var err error
		shown, err = c.Show(ctx, job.Label())
		return err
	})
	return shown, err
}

// atAnyNode calls ask with the first node that answers.
func (f *Finder) atAnyNode(ctx context.Context, nodes []slurmrest.Node, ask func(*rpc.Client) error) error {
	tried, last := 0, error(&rpc.Error{Kind: rpc.ErrUnreachable, Text: "no node is up"})
	for i := range nodes {
		n := &nodes[i]
		if n.State.Base == "DOWN" || n.State.Has("NOT_RESPONDING") || n.Address == "" {
			continue
		}
		if tried++; tried > nodesToAsk {
			break
		}
		if last = f.acceptsConnections(ctx, n); last != nil {
			continue
		}
		if last = f.callNode(n, ask); !errors.Is(last, rpc.ErrUnreachable) {
			break
		}
	}
	return last
}

// Knock asks a node's proxyd how the node is.
func (f *Finder) Knock(ctx context.Context, node string) (*rpc.PingReply, error) {
	ctx, cancel := context.WithTimeout(ctx, knockDeadline)
	defer cancel()
	n, err := f.Node(ctx, node)
	if err != nil {
		return nil, err
	}
	return f.PingHealth(ctx, node, n.Address)
}

// PingHealth asks the proxyd at a node's address how the node is.
func (f *Finder) PingHealth(ctx context.Context, node, address string) (*rpc.PingReply, error) {
	if address == "" {
		return nil, errNoAddress(node)
	}
	var reply *rpc.PingReply
	err := f.callNode(&slurmrest.Node{Name: node, Address: address}, func(c *rpc.Client) error {
		var err error
		reply, err = c.PingHealth(ctx)
		return err
	})
	return reply, err
}

// knockDeadline is how long Knock waits for a node.
const knockDeadline = 5 * time.Second

// acceptsConnections reports whether a program listens at a node's port; without this test, a call would wait for a
// node that is off.
func (f *Finder) acceptsConnections(ctx context.Context, n *slurmrest.Node) error {
	d := net.Dialer{Timeout: connectTimeout}
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(n.Address, f.Port))
	if err != nil {
		return &rpc.Error{Kind: rpc.ErrUnreachable, Text: fmt.Sprintf("node %s: %v", n.Name, err), Node: n.Name}
	}
	return conn.Close()
}

// withLeader calls ask with the job's leader: the batch host, or the node that the batch host
// names.
func (f *Finder) withLeader(ctx context.Context, job *slurmrest.Job, ask func(*rpc.Client) error) error {
	if job.BatchHost == "" {
		return rpc.Errorf(rpc.ErrNotRunning, "job %s runs nowhere", job.Label())
	}
	err := f.atNode(ctx, job.BatchHost, ask)
	var e *rpc.Error
	if errors.As(err, &e) && errors.Is(err, rpc.ErrNotLeader) && e.Node != "" && e.Node != job.BatchHost {
		return f.atNode(ctx, e.Node, ask)
	}
	return err
}

func (f *Finder) atNode(ctx context.Context, name string, ask func(*rpc.Client) error) error {
	node, err := f.Node(ctx, name)
	if err != nil {
		return err
	}
	if node.Address == "" {
		return errNoAddress(name)
	}
	return f.callNode(&node, ask)
}

func errNoAddress(node string) error {
	return &rpc.Error{Kind: rpc.ErrUnreachable, Text: fmt.Sprintf("node %s: Slurm knows no address of it", node), Node: node}
}

func (f *Finder) callNode(n *slurmrest.Node, ask func(*rpc.Client) error) error {
	c, err := rpc.Dial(n.Name, net.JoinHostPort(n.Address, f.Port), f.Here, f.Coder)
	if err != nil {
		return err
	}
	defer c.Close()
	return ask(c)
}
