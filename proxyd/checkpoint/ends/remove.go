// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ends

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// DeleteJob deletes a job's checkpoints, addresses and record.
func (e Ends) DeleteJob(ctx context.Context, id uint32) error {
	return errors.Join(e.DeleteCheckpoints(ctx, id), e.Addresses.Give(ctx, slurm.JobName(id)), e.DeleteRecord(id))
}

// DeleteRecord deletes a job's record and the files beside it, and keeps the time line for people. A
// second call is harmless.
func (e Ends) DeleteRecord(id uint32) error {
	rec, err := e.Records.Load(id)
	if err == nil && rec != nil {
		err = e.Timeline.KeepPast(rec)
	}
	if rec != nil && e.Relay != nil {
		e.StartBackground(func(ctx context.Context) {
			if err := e.Relay.Forget(ctx, rec.RelayKey(e.Cluster)); err != nil && ctx.Err() == nil {
				// The relay forgets a job by itself if no daemon names the job for long.
				e.Log.Info("the relay cannot be told that a job is over", "job", id, "error", err)
			}
		})
	}
	err = errors.Join(err, e.Records.RemoveScript(id))
	return errors.Join(err, e.Uploads.RemoveEnded(id), e.Records.RemoveChangedFiles(id), e.Records.Remove(id), e.Timeline.Remove(id))
}

// DeleteCheckpoints deletes a job's checkpoints.
func (e Ends) DeleteCheckpoints(ctx context.Context, id uint32) error {
	if err := e.Uploads.Abandon(ctx, id); err != nil {
		return err
	}
	job := store.PlainJob(e.Cluster, id)
	all, err := e.Store.List(ctx, &job)
	for _, s := range all {
		err = errors.Join(err, e.deleteCheckpoint(ctx, s.ID))
	}
	return err
}

// DeleteExpired deletes checkpoints of a running job by the retention rule.
func (e Ends) DeleteExpired(ctx context.Context, id uint32) error {
	job := store.PlainJob(e.Cluster, id)
	all, err := e.Store.List(ctx, &job)
	if err != nil {
		return err
	}
	keep := e.Retention
	keep.Needs = e.Uploads.IsNeededAsBase
	for _, old := range keep.Expired(time.Now(), all) {
		err = errors.Join(err, e.deleteUnlessBase(ctx, old))
	}
	return err
}

// deleteUnlessBase deletes a checkpoint unless a newer checkpoint has become dependent on it
// meanwhile.
func (e Ends) deleteUnlessBase(ctx context.Context, id store.ID) error {
	return e.Uploads.UnlessBase(id, func() error { return e.deleteCheckpoint(ctx, id) })
}

func (e Ends) deleteCheckpoint(ctx context.Context, id store.ID) error {
	err := e.Store.Delete(ctx, id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
