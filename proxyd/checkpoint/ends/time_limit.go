// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ends

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/waits"
)

// Slurm takes a job at its time limit to be over, and runs it again only after a requeue. The
// job's record names the node that owes the requeue, from before the end of the job's processes
// until Slurm shows the result: a requeue that comes while the job completes may be accepted
// without effect.

const (
	requeuePollInterval = time.Second
	requeueTimeout      = 10 * time.Minute
)

// RequeueAfterTimeLimit requeues a job that Slurm has ended at its time limit. A job that Slurm does not know may be known
// again soon (see SettleEndedRun). If not, the Cleaner removes its record, and the checkpoints stay.
func (e Ends) RequeueAfterTimeLimit(ctx context.Context, rec records.Record) {
	log := e.Log.With("job", rec.Job)
	requeue := e.Slurm.Requeue
	if e.OnTimeLimit == "hold" {
		requeue = e.Slurm.RequeueHold
	}
	ctx, cancel := context.WithTimeout(ctx, requeueTimeout)
	defer cancel()
	for {
		s, err := e.Slurm.Show(ctx, rec.Slurm)
		switch {
		case err == nil && (s.Waits() || s.Runs()):
			err = errors.Join(e.forgetOwedRequeue(rec.Job), e.slurmComments().Write(ctx, rec.Slurm, "time limit: goes on from its checkpoint"))
		default:
			if err == nil && s.State != "COMPLETING" {
				err = requeue(ctx, rec.Slurm)
			}
			if err != nil {
				log.Warn("cannot requeue after the time limit", "error", err)
			}
			if !waits.SleepUnlessDone(ctx, requeuePollInterval) {
				return // A successor of this daemon goes on.
			}
			continue
		}
		if err != nil {
			log.Error("cannot clean up after the time limit", "error", err)
		}
		return
	}
}

// forgetOwedRequeue notes that no node owes a job the requeue. The job's next run may have changed the rest of the record.
func (e Ends) forgetOwedRequeue(id uint32) error {
	rec, err := e.Records.Load(id)
	if err != nil || rec == nil {
		return err
	}
	rec.RequeuedBy = ""
	return e.Records.Save(rec)
}

// ResumeRequeues goes on with the requeues that this daemon's predecessor owed.
func (e Ends) ResumeRequeues() error {
	entries, err := os.ReadDir(e.Records.Dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		id, err := strconv.ParseUint(strings.TrimSuffix(entry.Name(), ".json"), 10, 32)
		if err != nil || filepath.Ext(entry.Name()) != ".json" {
			continue
		}
		rec, err := e.Records.Load(uint32(id))
		if err != nil {
			e.Log.Error("cannot read a job's record", "job", id, "error", err)
			continue
		}
		if rec != nil && rec.RequeuedBy == e.Node {
			e.StartBackground(func(ctx context.Context) { e.RequeueAfterTimeLimit(ctx, *rec) })
		}
	}
	return nil
}
