// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package upload

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/stage"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// Conductor is the part of this node's conductor that uploads need: calls to other nodes (this node included), reports
// to people, and facts about jobs.
type Conductor interface {
	// UploadShare has a node copy its share into the store.
	UploadShare(ctx context.Context, node string, id store.ID, ticket store.Ticket) (ShareReply, error)
	// ShareStatus asks a node how much of its share is in the store.
	ShareStatus(ctx context.Context, node string, id store.ID) (ShareStatus, error)
	// DropShare has a node delete its share: the upload is over.
	DropShare(ctx context.Context, node string, id store.ID) error

	// AddUploadEvent adds an event to the time line of the upload's job, if this node knows the job.
	AddUploadEvent(up *Record, what, text string)
	// WriteComment replaces the product's part of a job's comment.
	WriteComment(ctx context.Context, job, text string) error
	// ReportStored is called when a checkpoint is in the store.
	ReportStored(id store.ID)
	// DeleteExpired deletes the checkpoints of a job that the newest replaces.
	DeleteExpired(ctx context.Context, job uint32) error
	// IsCapturing tells whether this node takes part in this checkpoint now.
	IsCapturing(id store.ID) bool
}

// Config describes the node of uploads.
type Config struct {
	Node, Cluster string
	Dir           string // of the records: the shared folder of jobs
	Store         *store.Store
	Stage         *stage.Stage // nil: this node has none
	Rate          uint64       // bytes per second; 0: unlimited
	Conductor     Conductor
	Log           *slog.Logger
}

// Uploads leads the uploads of this node, and has its share in uploads that other nodes lead.
// All methods may be called concurrently.
type Uploads struct {
	Config
	folder uploadFolder
	rate   rateLimit

	daemonCtx  context.Context // the uploads end with it
	background sync.WaitGroup

	mu            sync.Mutex
	active        map[uint32]*uploadRun // uploads that this node leads, by job
	shareProgress map[store.ID][2]int64 // bytes done and total of this node's shares
}

// New returns the uploads of a node. They end with ctx.
func New(ctx context.Context, cfg Config) *Uploads {
	u := &Uploads{Config: cfg, folder: uploadFolder{dir: cfg.Dir}, daemonCtx: ctx, active: map[uint32]*uploadRun{}, shareProgress: map[store.ID][2]int64{}}
	u.rate.setRate(cfg.Rate)
	return u
}

// Close returns when no upload runs any more. Cancel the context of New before.
func (u *Uploads) Close() { u.background.Wait() }

// errUploadUnwanted ends an upload that was declared lost or replaced by a newer upload.
var errUploadUnwanted = errors.New("the upload is not wanted any more")

// checkWanted returns nil while the job's record names this upload.
func (u *Uploads) checkWanted(up *Record) error {
	now, err := u.folder.loadRecord(up.Job)
	if err == nil && (!up.IsSame(now) || now.Lost != "") {
		err = errUploadUnwanted
	}
	return err
}

// Abandon ends a job's upload, because none of its checkpoints is needed any more.
func (u *Uploads) Abandon(ctx context.Context, job uint32) error {
	up, err := u.folder.loadRecord(job)
	if err != nil || up == nil {
		return err
	}
	if err := u.folder.removeAll(job); err != nil {
		return err
	}
	return u.Store.Fence(ctx, u.idOf(up))
}

// Replace ends the upload of a checkpoint that is older than the newest in the store.
func (u *Uploads) Replace(job uint32) error {
	u.mu.Lock()
	b := u.active[job]
	u.mu.Unlock()
	if b != nil {
		b.cancel()
	}
	u.folder.mu.Lock()
	defer u.folder.mu.Unlock()
	return u.folder.removeAll(job)
}

// Pledge makes a staged checkpoint count: from now on the job resumes from this checkpoint or, if
// the upload is lost, from the checkpoint before.
func (u *Uploads) Pledge(ctx context.Context, up *Record) error {
	u.folder.mu.Lock()
	defer u.folder.mu.Unlock()
	return u.folder.savePledged(up, func() error { return u.checkBaseStored(ctx, up) })
}

// List returns the uploads of a job, also if they were lost. 0 stands for all jobs.
func (u *Uploads) List(job uint32) ([]*Record, error) {
	if job == 0 {
		return u.folder.loadAll(uploadSuffix)
	}
	up, err := u.folder.loadRecord(job)
	if up == nil {
		return nil, err
	}
	return []*Record{up}, nil
}

// Newest returns the record of a job's upload; nil if there is none.
func (u *Uploads) Newest(job uint32) (*Record, error) { return u.folder.loadRecord(job) }

// Change calls edit to change the record of an upload, if the job still has that record. The record
// is removed if edit returns false.
func (u *Uploads) Change(up *Record, edit func(*Record) bool) error {
	return u.folder.changeRecord(up, edit)
}

// RemoveEnded removes the records of a job that is over, unless an upload at work removes them at its end.
func (u *Uploads) RemoveEnded(job uint32) error {
	up, err := u.folder.loadRecord(job)
	if up != nil && up.Lost != "" {
		err = u.folder.removeAll(job)
	}
	return errors.Join(err, u.folder.removeRecord(job, pledgeSuffix))
}

// Wait returns when this node leads no upload of the job. It calls waits before each
// wait.
func (u *Uploads) Wait(ctx context.Context, job uint32, waits func()) error {
	for {
		u.mu.Lock()
		b := u.active[job]
		u.mu.Unlock()
		if b == nil {
			return nil
		}
		waits()
		select {
		case <-b.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
