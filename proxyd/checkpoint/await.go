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
// way there, with patience, 0 for ever. It returns the record of one that is lost.
func (c *Conductor) awaitUpload(ctx context.Context, job uint32, submitted string, patience time.Duration, tell func(up *Upload, done, total int64)) (*Upload, error) {
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
			tell(up, w.done, w.total)
		}
		if !wait(ctx, awaitLook) {
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
			s.err = c.ask(ctx, node, up.Job, up.Number, phaseShare, none{}, &s.reply)
			all[i] = s
		})
	}
	wg.Wait()
	return all
}

// watcher decides when to wait no longer. It has no clock of its own.
type watcher struct {
	patience time.Duration // 0: for ever

	seen        map[string]*seen
	moved       time.Time // when something last got on
	done, total int64
}

// seen is what a watcher knows of one node.
type seen struct {
	life string
	best int64
	away time.Time // since when it does not answer; zero: it does
}

// judge returns why the checkpoint is given up, or nothing. A share that is gone is gone
// at once; for a node that does not answer, or for shares that do not get on, there is
// patience: a daemon that was killed and a node that boots come back.
func (w *watcher) judge(now time.Time, sights []sight) string {
	if w.seen == nil {
		w.seen, w.moved = map[string]*seen{}, now
	}
	w.done, w.total = 0, 0
	var why string
	for _, s := range sights {
		k := w.seen[s.node]
		if k == nil {
			k = &seen{}
			w.seen[s.node] = k
		}
		switch {
		case s.err != nil:
			if k.away.IsZero() {
				k.away = now
			}
			if w.tired(now, k.away) {
				return fmt.Sprintf("node %s, which has a part of it, does not answer: %v", s.node, s.err)
			}
			continue
		case !s.reply.Has:
			return fmt.Sprintf("node %s has its part of it no more", s.node)
		}
		k.away = time.Time{}
		if s.reply.Life != k.life || s.reply.Done > k.best {
			k.life, k.best, w.moved = s.reply.Life, s.reply.Done, now
		}
		w.done += s.reply.Done
		w.total += s.reply.Total
		if s.reply.Why != "" {
			why = ": " + s.reply.Why
		}
	}
	if w.tired(now, w.moved) {
		return "its upload does not get on" + why
	}
	return ""
}

func (w *watcher) tired(now, since time.Time) bool {
	return w.patience > 0 && now.Sub(since) > w.patience
}

// errUploadLost is why a job is held whose only checkpoint got lost.
var errUploadLost = errors.New("it was lost before it was in the store, and there is none before it; released, the job begins anew")

// arrival waits, for a restore, for the job's newest checkpoint.
func (j *job) arrival(ctx context.Context, rec *Record) (*Upload, error) {
	var told time.Time
	began := time.Now()
	lost, err := j.c.awaitUpload(ctx, j.id, rec.Submitted, j.c.Patience, func(up *Upload, done, total int64) {
		if now := time.Now(); now.Sub(told) > awaitTells {
			told = now
			j.say(waiting(up, done, total))
		}
	})
	if err != nil {
		return nil, fmt.Errorf("wait for the newest checkpoint: %w", err)
	}
	if !told.IsZero() {
		j.log.Info("waited for an upload", "took", time.Since(began), "lost", lost != nil)
	}
	if lost != nil && lost.Left && !lost.Told {
		j.log.Error("a checkpoint is lost", "checkpoint", lost.Number, "why", lost.Lost)
		j.happened(eventLost, lost.Nodes, fmt.Sprintf("checkpoint %d: %s", lost.Number, lost.Lost))
	}
	return lost, nil
}

func waiting(up *Upload, done, total int64) string {
	far := "its upload has not begun"
	if total > 0 {
		far = fmt.Sprintf("%d%% of it are in the store", 100*done/total)
	}
	return fmt.Sprintf("waits for checkpoint %d, which is on %s: %s", up.Number, join(up.Nodes), far)
}

// withoutAny is what becomes of a job that has no checkpoint but one that was lost: it is
// held once, so that nobody's work begins anew without a word.
func (j *job) withoutAny(lost *Upload) error {
	if lost == nil || !lost.Left || lost.Told {
		return nil
	}
	err := fmt.Errorf("checkpoint %d: %w (%s)", lost.Number, errUploadLost, lost.Lost)
	if up := j.giveUp(err); up != nil {
		return errors.Join(err, up)
	}
	return errors.Join(err, j.c.uploads.change(lost, func(now *Upload) bool { now.Told = true; return true }))
}
