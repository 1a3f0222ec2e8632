// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// Leaders reaches the proxyd of the node that runs a job's batch script. It implements
// Proxyd. It is safe for concurrent use and keeps no connection.
type Leaders struct {
	Node  func(ctx context.Context, name string) (slurmrest.Node, error)
	Port  string
	Here  string // the name of this host
	Coder munge.Coder
}

// Checkpoint implements Proxyd.
func (l *Leaders) Checkpoint(ctx context.Context, job *slurmrest.Job, reason string) (*rpc.Checkpoint, error) {
	var made *rpc.Checkpoint
	err := l.ask(ctx, job, func(c *rpc.Client) error {
		var err error
		made, err = c.Checkpoint(ctx, Label(job), reason, nil)
		return err
	})
	return made, err
}

// Checkpoints implements Proxyd.
func (l *Leaders) Checkpoints(ctx context.Context, job *slurmrest.Job) ([]*rpc.Checkpoint, error) {
	var all []*rpc.Checkpoint
	err := l.ask(ctx, job, func(c *rpc.Client) error {
		var err error
		all, err = c.Checkpoints(ctx, Label(job))
		return err
	})
	return all, err
}

// ask calls f with the job's leader: the batch host, or whom that names.
func (l *Leaders) ask(ctx context.Context, job *slurmrest.Job, f func(*rpc.Client) error) error {
	if job.BatchHost == "" {
		return rpc.Errorf(rpc.ErrNotRunning, "job %s runs nowhere", Label(job))
	}
	err := l.at(ctx, job.BatchHost, f)
	var e *rpc.Error
	if errors.As(err, &e) && errors.Is(err, rpc.ErrNotLeader) && e.Node != "" && e.Node != job.BatchHost {
		return l.at(ctx, e.Node, f)
	}
	return err
}

func (l *Leaders) at(ctx context.Context, name string, f func(*rpc.Client) error) error {
	node, err := l.Node(ctx, name)
	if err != nil {
		return err
	}
	if node.Address == "" {
		return &rpc.Error{Kind: rpc.ErrUnreachable, Text: fmt.Sprintf("node %s: Slurm knows no address of it", name), Node: name}
	}
	c, err := rpc.Dial(name, net.JoinHostPort(node.Address, l.Port), l.Here, l.Coder)
	if err != nil {
		return err
	}
	defer c.Close()
	return f(c)
}

// Label is how people name a job: "812", "812_3" for a task of an array, "812+1" for a
// component of a heterogeneous job.
func Label(j *slurmrest.Job) string {
	switch {
	case j.Array.JobID != 0 && j.Array.Task.Set:
		return slurmrest.TaskOf(j.Array.JobID, j.Array.Task.Value).String()
	case j.Het.JobID != 0:
		return slurmrest.ComponentOf(j.Het.JobID, j.Het.Offset).String()
	}
	return j.Ref().String()
}
