// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package api is the server's side of package rpc: it finds out which user sends a request and whether
// the user may make the request, and then hands the request to the conductor. All other decisions are
// the conductor's.
//
//	request               allowed to
//	───────               ──────────
//	Doctor                all users
//	Show, Checkpoint,
//	RunOn, Lend           the job's owner, operators
//	Checkpoints           all users; checkpoints of other users are left out
//	Verify, Export        the checkpoint's owner, operators
//	Delete                the checkpoint's owner, operators
//	GC                    operators
//	Ping, Call            root and SlurmUser: the daemons
//
// Operators are root, SlurmUser, and the users that the configuration names. A checkpoint that is
// damaged does not name its owner: the owner of its job is shown the checkpoint, and only
// operators may have its content or delete it.
package api

import (
	"context"
	"io"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// Conductor carries out requests. All methods may be called concurrently; that the caller may
// make the request has been checked, and names have the form that rpc.CheckJob and
// rpc.CheckpointJob demand. Errors wrap the kinds of package rpc; every other error reaches the
// caller as an internal error, with its text.
//
// progress may be called from any goroutine until the method returns, never blocks, and drops
// reports that come faster than the caller reads. ctx ends when the caller goes away: then the
// request is undone as far as possible.
type Conductor interface {
	// Owner returns the user of a job that Slurm knows, or that has checkpoints; else
	// rpc.ErrNoJob.
	Owner(ctx context.Context, job string) (uint32, error)
	Show(ctx context.Context, job string) (*rpc.Job, error)
	Checkpoint(ctx context.Context, req *rpc.CheckpointRequest, progress func(*rpc.Progress)) (*rpc.Checkpoint, error)
	// RunOn has a job run on that stands still after a checkpoint.
	RunOn(ctx context.Context, job string) error
	// Lend has a running job have so many GPUs in all, by jobs of its user that lend it theirs.
	Lend(ctx context.Context, req *rpc.LendRequest) (*rpc.LendReply, error)
	// Call serves the leader on another node. from is that node's name, in the words of its root.
	Call(ctx context.Context, from string, req *rpc.CallRequest) (*rpc.CallReply, error)
	// Checkpoints lists the checkpoints of a job, or with "" of all jobs. UID is right in each
	// checkpoint that can be trusted; where Problem is set UID is the job's owner, and User is
	// empty if the owner is not known.
	Checkpoints(ctx context.Context, job string) ([]*rpc.Checkpoint, error)
	// Attempts returns the checkpoint of a job that is being made, if this node leads the job; else an empty
	// list.
	Attempts(ctx context.Context, job string) ([]*rpc.Attempt, error)
	// Verify reads checkpoints back, named by the ids that Checkpoints gave.
	Verify(ctx context.Context, ids []string, progress func(*rpc.Progress)) (*rpc.VerifyReport, error)
	// Delete deletes checkpoints, named in the same way.
	Delete(ctx context.Context, ids []string) error
	GC(ctx context.Context, req *rpc.GCRequest, progress func(*rpc.Progress)) (*rpc.GCReport, error)
	// Export calls put for each file of a checkpoint, in turn. An error of put ends the export
	// and is returned.
	Export(ctx context.Context, id string, put func(name string, size int64, content io.Reader) error) error
}
