// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ends

import (
	"context"
	"log/slog"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/reports"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// Relay keeps connections of jobs to outside while the jobs are away.
type Relay interface {
	// Forget ends the connections of a job that is over.
	Forget(ctx context.Context, job string) error
}

// Ends removes the files of ended runs and jobs, and requeues the jobs that are to run on. All methods may be called
// concurrently.
type Ends struct {
	Node, Cluster string
	OnTimeLimit   string          // "requeue", "hold" or "end"
	Retention     store.Retention // for checkpoints of running jobs
	KeepPast      time.Duration   // for time lines of jobs that are over

	Slurm     *slurm.Slurm
	Store     *store.Store
	Addresses Addresses
	Records   records.Folder
	Timeline  *records.Timeline
	Meter     reports.Meter
	Uploads   Uploads
	Relay     Relay // nil: the site has none
	Jobs      Jobs
	Capsules  Capsules
	// StartBackground runs f in a goroutine. ctx of f ends with the daemon.
	StartBackground func(f func(ctx context.Context))
	Log             *slog.Logger
}

// writeEvent reports an event of a job to the Meter, and writes the event, which happens here and now, into the time line.
func (e Ends) writeEvent(id uint32, what, text string) error {
	e.Meter.Event(what)
	return e.Timeline.Write(id, records.Event{At: time.Now(), What: what, Where: e.Node, Text: text})
}

// Jobs knows the jobs of this node.
type Jobs interface {
	// Has tells whether the node has a part of a job.
	Has(job uint32) bool
	// HasRunEnded tells whether the node had capsules of the run, or of a later run, and now has no capsule of the job.
	HasRunEnded(job uint32, run int) bool
}

// Capsules knows the capsules of jobs on all nodes.
type Capsules interface {
	// AreOn tells whether a node has capsules of a job. An error says that the node does not tell.
	AreOn(ctx context.Context, node string, job uint32) (bool, error)
}

// Addresses are the addresses of jobs.
type Addresses interface {
	// Give gives the addresses of a job back. A second call is harmless.
	Give(ctx context.Context, job string) error
}

// Uploads are the checkpoints on their way to the store.
type Uploads interface {
	// Abandon ends the upload of a job.
	Abandon(ctx context.Context, job uint32) error
	// RemoveEnded removes the record of a job's upload, if the upload is over.
	RemoveEnded(job uint32) error
	// IsNeededAsBase tells whether a checkpoint is the base of a checkpoint that is being uploaded.
	IsNeededAsBase(id store.ID) bool
	// UnlessBase calls do unless IsNeededAsBase.
	UnlessBase(id store.ID, do func() error) error
}

func (e Ends) slurmComments() reports.Comments { return reports.Comments{Slurm: e.Slurm} }
