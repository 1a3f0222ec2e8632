// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package api is the server's side of package rpc: who asks, may they, and then hand the
// request to the conductor. It decides nothing else.
//
//	request               who may
//	───────               ───────
//	Doctor                everybody
//	Show, Checkpoint,
//	RunOn                 the job's owner, operators
//	Checkpoints           everybody; what belongs to others is left out
//	Verify, Export        the checkpoint's owner, operators
//	Delete                the checkpoint's owner, operators
//	GC                    operators
//	Ping, Phase           root and SlurmUser: the daemons
//
// Operators are root, SlurmUser, and whom the configuration names. A checkpoint that is
// damaged does not say whose it is: it is shown to whom its job belongs, and only operators
// may have its content or delete it.
package api

import (
	"context"
	"io"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// Conductor does what was asked. All methods may be called concurrently; that the caller
// may ask has been checked, and names have the form that rpc.CheckJob, rpc.CheckpointJob
// and rpc.CheckKey demand. Errors wrap the kinds of package rpc; every other error reaches
// the caller as an internal one, with its text.
//
// progress may be called from any goroutine until the method returns, never blocks, and
// drops what comes faster than the caller reads. ctx ends when the caller goes away: what
// can be undone then is.
type Conductor interface {
	// Owner returns the user of a job that Slurm knows, or that has checkpoints; else
	// rpc.ErrNoJob.
	Owner(ctx context.Context, job string) (uint32, error)
	Show(ctx context.Context, job string) (*rpc.Job, error)
	Checkpoint(ctx context.Context, req *rpc.CheckpointRequest, progress func(*rpc.Progress)) (*rpc.Checkpoint, error)
	// RunOn has a job run on that stands still after a checkpoint.
	RunOn(ctx context.Context, job string) error
	// Phase serves another node's leader. from is the node that asks, as root there
	// calls it.
	Phase(ctx context.Context, from string, req *rpc.PhaseRequest) (*rpc.PhaseReply, error)
	// Checkpoints lists those of a job, or with "" all. UID is right in each that can be
	// trusted; of one with Problem set it is the job's owner's, and User is empty if nobody
	// knows that.
	Checkpoints(ctx context.Context, job string) ([]*rpc.Checkpoint, error)
	// Verify reads checkpoints back, named by the ids that Checkpoints gave.
	Verify(ctx context.Context, ids []string, progress func(*rpc.Progress)) (*rpc.VerifyReport, error)
	// Delete takes checkpoints away, named likewise.
	Delete(ctx context.Context, ids []string) error
	GC(ctx context.Context, req *rpc.GCRequest, progress func(*rpc.Progress)) (*rpc.GCReport, error)
	// Export calls put for each file of a checkpoint, one after the other. An error of
	// put ends it and is returned.
	Export(ctx context.Context, id string, put func(name string, size int64, content io.Reader) error) error
}
