// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
)

// How often a restore looks for its checkpoint in the store, asks the nodes for their progress,
// and updates the job's comment.
const (
	uploadPollInterval    = 300 * time.Millisecond
	shareAskInterval      = 2 * time.Second
	uploadCommentInterval = 15 * time.Second
)

// awaitStoredOrLost waits until the newest checkpoint of a job is in the store, if the checkpoint
// is on its way there. It returns the record of an upload that is lost. patience bounds the wait
// for nodes that do not answer; 0: no bound.
func (c *Conductor) awaitStoredOrLost(ctx context.Context, job uint32, submitted string, patience time.Duration, tell func(*Upload, *uploadWatch)) (*Upload, error) {
	w := uploadWatch{patience: patience}
	var asked time.Time
	for {
		up, err := c.uploads.load(job)
		if err != nil || up == nil || up.Submitted != submitted {
			return nil, err
		}
		if asked.IsZero() || up.Lost != "" {
			if there, err := c.isInStore(ctx, up); err != nil || there {
				return nil, err
			}
		}
		if up.Lost != "" {
			return up, nil
		}
		if time.Since(asked) >= shareAskInterval {
			asked = time.Now()
			why := w.lossReason(asked, c.askShareStatus(ctx, up))
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if why != "" {
				if err := c.markUploadLost(ctx, up, why); err != nil {
					return nil, err
				}
				continue // The checkpoint may have been committed at this very moment.
			}
			tell(up, &w)
		}
		if !sleepUnlessDone(ctx, uploadPollInterval) {
			return nil, context.Cause(ctx)
		}
	}
}

// isInStore tells whether the store has a checkpoint at least as new as up. For an upload marked
// as lost, the answer no is final: upload_record.go explains the order.
func (c *Conductor) isInStore(ctx context.Context, up *Upload) (bool, error) {
	if up.Lost != "" {
		if err := c.Store.Fence(ctx, c.uploadID(up)); err != nil {
			return false, err
		}
	}
	id := c.storeJob(up.Job)
	all, err := c.Store.List(ctx, &id)
	for _, s := range all {
		if s.ID.Number >= up.Number {
			return true, err
		}
	}
	return false, err
}

// shareStatus is the answer of a node about its share.
type shareStatus struct {
	node  string
	reply shareStatusReply
	err   error
}

// shareAskTimeout bounds the question to one node.
const shareAskTimeout = 5 * time.Second

func (c *Conductor) askShareStatus(ctx context.Context, up *Upload) []shareStatus {
	all := make([]shareStatus, len(up.Nodes))
	var wg sync.WaitGroup
	for i, node := range up.Nodes {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, shareAskTimeout)
			defer cancel()
			s := shareStatus{node: node}
			s.err = c.callNode(ctx, node, up.Job, up.Number, callShareStatus, empty{}, &s.reply)
			all[i] = s
		})
	}
	wg.Wait()
	return all
}

// uploadWatch decides when an upload counts as lost. It has no clock of its own.
type uploadWatch struct {
	patience time.Duration // with a node that does not answer; 0: no bound

	unreachableSince map[string]time.Time // by node
	done, total      int64                // bytes
	lastError        string               // of the last try, or ""
}

// lossReason returns why the upload counts as lost, or "". A missing share is lost at once. A
// node that does not answer has patience, because a killed daemon and a booting node come back.
// While all nodes have their shares, nothing is lost, even if the store is full or unreachable
// for long.
func (w *uploadWatch) lossReason(now time.Time, sights []shareStatus) string {
	away := map[string]time.Time{}
	w.done, w.total, w.lastError = 0, 0, ""
	for _, s := range sights {
		if s.err != nil {
			since, known := w.unreachableSince[s.node]
			if !known {
				since = now
			}
			away[s.node] = since
			w.lastError = s.err.Error()
			if w.patience > 0 && now.Sub(since) > w.patience {
				return fmt.Sprintf("node %s, which has a part of it, does not answer: %v", s.node, s.err)
			}
			continue
		}
		if !s.reply.Has {
			return fmt.Sprintf("node %s has its part of it no more", s.node)
		}
		w.done += s.reply.Done
		w.total += s.reply.Total
		if s.reply.LastError != "" {
			w.lastError = s.reply.LastError
		}
	}
	w.unreachableSince = away
	return ""
}

// errUploadLost is the reason for which a job is held whose only checkpoint is lost.
var errUploadLost = errors.New("it was lost before it was in the store, and there is none before it; released, the job begins anew")

// awaitNewestUpload waits, before a restore, for the job's newest checkpoint.
func (j *job) awaitNewestUpload(ctx context.Context, rec *records.Record) (*Upload, error) {
	var told time.Time
	began := time.Now()
	lost, err := j.c.awaitStoredOrLost(ctx, j.id, rec.Submitted, j.c.Patience, func(up *Upload, w *uploadWatch) {
		if now := time.Now(); now.Sub(told) > uploadCommentInterval {
			told = now
			j.setComment(describeWait(up, w))
		}
	})
	if err != nil {
		return nil, fmt.Errorf("wait for the newest checkpoint: %w", err)
	}
	if !told.IsZero() {
		j.log.Info("waited for an upload", "took", time.Since(began), "lost", lost != nil)
	}
	return lost, nil
}

func describeWait(up *Upload, w *uploadWatch) string {
	text := fmt.Sprintf("waits for checkpoint %d, which is on its way to the store from %s", up.Number, joinNames(up.Nodes))
	if w.total > 0 {
		text += fmt.Sprintf(" (%d%%)", 100*w.done/w.total)
	}
	if w.lastError != "" {
		text += ": " + w.lastError
	}
	return text
}

// holdWithoutCheckpoint holds a job, once, whose only checkpoint is lost: the user is told before
// the job begins anew.
func (j *job) holdWithoutCheckpoint(lost *Upload) error {
	if lost == nil || !lost.Released || lost.HoldReported {
		return nil
	}
	err := fmt.Errorf("checkpoint %d: %w (%s)", lost.Number, errUploadLost, lost.Lost)
	if up := j.giveUpRun(err); up != nil {
		return errors.Join(err, up)
	}
	return errors.Join(err, j.c.uploads.change(lost, func(now *Upload) bool { now.HoldReported = true; return true }))
}
