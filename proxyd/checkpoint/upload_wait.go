// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// How often a restore looks whether its checkpoint is there, asks the nodes that have it,
// and tells the user.
const (
	awaitLook  = 300 * time.Millisecond
	awaitAsk   = 2 * time.Second
	awaitTells = 15 * time.Second
)

// awaitUpload waits until the newest checkpoint of a job is in the store, if it is on its
// way there, with patience for nodes that do not answer. It returns the record of one that
// is lost.
func (c *Conductor) awaitUpload(ctx context.Context, job uint32, submitted string, patience time.Duration, tell func(*Upload, *watcher)) (*Upload, error) {
	w := watcher{patience: patience}
	var asked time.Time
	for {
		up, err := c.uploads.load(job)
		if err != nil || up == nil || up.Submitted != submitted {
			return nil, err
		}
		if asked.IsZero() || up.Lost != "" {
			if there, err := c.overtook(ctx, up); err != nil || there {
				return nil, err
			}
		}
		if up.Lost != "" {
			return up, nil
		}
		if time.Since(asked) >= awaitAsk {
			asked = time.Now()
			why := w.judge(asked, c.askShares(ctx, up))
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if why != "" {
				if err := c.giveUpOn(ctx, up, why); err != nil {
					return nil, err
				}
				continue // unless it has arrived at this very moment
			}
			tell(up, &w)
		}
		if !sleepUnlessDone(ctx, awaitLook) {
			return nil, context.Cause(ctx)
		}
	}
}

// overtook says whether the store has a checkpoint that is as new as up. One that is lost
// will never be in the store when this has said no: upload.go has the order.
func (c *Conductor) overtook(ctx context.Context, up *Upload) (bool, error) {
	if up.Lost != "" {
		if err := c.Store.Fence(ctx, c.idOf(up)); err != nil {
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

// sight is what is seen of one node.
type sight struct {
	node  string
	reply shareReply
	err   error
}

// askDeadline bounds the question to one node.
const askDeadline = 5 * time.Second

func (c *Conductor) askShares(ctx context.Context, up *Upload) []sight {
	all := make([]sight, len(up.Nodes))
	var wg sync.WaitGroup
	for i, node := range up.Nodes {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, askDeadline)
			defer cancel()
			s := sight{node: node}
			s.err = c.callNode(ctx, node, up.Job, up.Number, callShareStatus, empty{}, &s.reply)
			all[i] = s
		})
	}
	wg.Wait()
	return all
}

// watcher decides when to wait no longer. It has no clock of its own.
type watcher struct {
	patience time.Duration // with a node that does not answer; 0: for ever

	away        map[string]time.Time // nodes that do not answer, since when
	done, total int64                // bytes
	why         string               // the last try failed, if it did
}

// judge returns why the checkpoint is given up, or nothing. A share that is gone is gone
// at once. For a node that does not answer there is patience: a daemon that was killed and
// a node that boots come back. While all nodes have their shares nothing is lost, however
// long the store is full or away.
func (w *watcher) judge(now time.Time, sights []sight) string {
	away := map[string]time.Time{}
	w.done, w.total, w.why = 0, 0, ""
	for _, s := range sights {
		if s.err != nil {
			since, known := w.away[s.node]
			if !known {
				since = now
			}
			away[s.node] = since
			w.why = s.err.Error()
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
		if s.reply.Why != "" {
			w.why = s.reply.Why
		}
	}
	w.away = away
	return ""
}

// errUploadLost is why a job is held whose only checkpoint got lost.
var errUploadLost = errors.New("it was lost before it was in the store, and there is none before it; released, the job begins anew")

// arrival waits, for a restore, for the job's newest checkpoint.
func (j *job) arrival(ctx context.Context, rec *Record) (*Upload, error) {
	var told time.Time
	began := time.Now()
	lost, err := j.c.awaitUpload(ctx, j.id, rec.Submitted, j.c.Patience, func(up *Upload, w *watcher) {
		if now := time.Now(); now.Sub(told) > awaitTells {
			told = now
			j.setComment(waiting(up, w))
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

func waiting(up *Upload, w *watcher) string {
	text := fmt.Sprintf("waits for checkpoint %d, which is on its way to the store from %s", up.Number, joinNames(up.Nodes))
	if w.total > 0 {
		text += fmt.Sprintf(" (%d%%)", 100*w.done/w.total)
	}
	if w.why != "" {
		text += ": " + w.why
	}
	return text
}

// withoutAny is what becomes of a job that has no checkpoint but one that was lost: it is
// held once, so that nobody's work begins anew without a word.
func (j *job) withoutAny(lost *Upload) error {
	if lost == nil || !lost.Left || lost.Told {
		return nil
	}
	err := fmt.Errorf("checkpoint %d: %w (%s)", lost.Number, errUploadLost, lost.Lost)
	if up := j.giveUpRun(err); up != nil {
		return errors.Join(err, up)
	}
	return errors.Join(err, j.c.uploads.change(lost, func(now *Upload) bool { now.Told = true; return true }))
}
