// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
)

// errSharedSilent is returned while a look at the shared folder takes longer than sharedPatience.
var errSharedSilent = errors.New("its file system does not answer")

// How long one look at the shared folder may take, and how often a folder that is away is looked at.
const (
	sharedPatience = 5 * time.Second
	sharedLook     = time.Second
)

// sharedWatch looks at the shared folder for several callers with one system call at a time: on a file
// system whose server is dead each of them would hang for ever, and keep a thread.
type sharedWatch struct {
	mu   sync.Mutex
	look *sharedAnswer // in progress; nil: none is
}

// sharedAnswer is what a look at the shared folder finds.
type sharedAnswer struct {
	done chan struct{} // closed when err is set
	err  error
}

// checkNow calls check, or waits for the call in progress. It returns after sharedPatience at the latest.
func (w *sharedWatch) checkNow(ctx context.Context, check func() error) error {
	w.mu.Lock()
	look := w.look
	if look == nil {
		look = &sharedAnswer{done: make(chan struct{})}
		w.look = look
		go func() {
			look.err = check()
			w.mu.Lock()
			defer w.mu.Unlock()
			w.look = nil
			close(look.done)
		}()
	}
	w.mu.Unlock()
	timeout := time.NewTimer(sharedPatience)
	defer timeout.Stop()
	select {
	case <-look.done:
		return look.err
	case <-timeout.C:
		return errSharedSilent
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// waitForShared returns when the shared folder is there: without the folder, what is known of a job cannot be told
// from a job of which nothing is known. It returns an error only if ctx ends, as it does with the task that waits.
func (c *Conductor) waitForShared(ctx context.Context, job uint32) error {
	if c.CheckShared == nil {
		return nil
	}
	isAway := false
	for {
		err := c.sharedWatch.checkNow(ctx, c.CheckShared)
		switch {
		case err == nil && isAway:
			c.Log.Info("the shared folder is back", "job", job)
			return nil
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return err
		case !isAway:
			isAway = true
			c.Log.Error("a task waits for the shared folder", "job", job, "error", err)
			c.startBackground(func(ctx context.Context) {
				if err := c.writeComment(ctx, jobName(job), "waits for the shared folder: "+err.Error()); err != nil {
					c.Log.Info("comment", "job", job, "error", err)
				}
			})
		}
		if !sleepUnlessDone(ctx, sharedLook) {
			return context.Cause(ctx)
		}
	}
}

// checkpointInComment matches what our part of a comment says of a checkpoint that counts.
var checkpointInComment = regexp.MustCompile(regexp.QuoteMeta(commentPrefix) + `(?:checkpoint|restored from checkpoint) ([0-9]+) (?:at|on) `)

// namedCheckpoint returns the checkpoint that a job's comment names; 0: none.
func namedCheckpoint(comment string) int {
	m := checkpointInComment.FindStringSubmatch(comment)
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return 0
	}
	return n
}

// errCheckpointsLost is why a job is held whose checkpoints are gone.
var errCheckpointsLost = errors.New("the shared folder has no checkpoint of this job any more (is the right file system mounted? " +
	"were they deleted?); released, the job begins anew")

// lostCheckpoint returns an error that wraps errCheckpointsLost if Slurm runs a job again and the job's comment names a
// checkpoint; its caller has found none in the store. A run from the script's beginning would write over what the job has
// done, so the job is to be held. The comment names no checkpoint afterwards: released, the job begins anew.
func (c *Conductor) lostCheckpoint(ctx context.Context, s *slurm.Job) error {
	if s.Restarts == 0 {
		return nil
	}
	said, err := c.Slurm.Said(ctx, s.String())
	for began := time.Now(); err != nil && time.Since(began) < restoreCallTimeout && sleepUnlessDone(ctx, sharedLook); {
		said, err = c.Slurm.Said(ctx, s.String()) // slurmctld may be starting again
	}
	if err != nil {
		return err
	}
	if n := namedCheckpoint(said); n > 0 {
		return fmt.Errorf("checkpoint %d was made, and %w", n, errCheckpointsLost)
	}
	return nil
}

// holdIfCheckpointsLost holds a job that has no record in the shared folder, if lostCheckpoint finds that it should have
// one, and returns why.
func (c *Conductor) holdIfCheckpointsLost(ctx context.Context, s *slurm.Job) error {
	id := c.storeJob(s.ID)
	all, err := c.Store.List(ctx, &id)
	if err != nil || len(all) > 0 {
		return err
	}
	lost := c.lostCheckpoint(ctx, s)
	if !errors.Is(lost, errCheckpointsLost) {
		return lost
	}
	c.Log.Error("the job is held", "job", s.ID, "error", lost)
	ctx = context.WithoutCancel(ctx) // which ends with the task, and Slurm kills the task
	said := c.writeComment(ctx, s.String(), commentHeld+lost.Error())
	return errors.Join(lost, said, c.Slurm.RequeueHold(ctx, s.String()))
}
