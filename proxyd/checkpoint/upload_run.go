// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// bringing is an upload that this node leads. It ends with the daemon, whose successor
// begins it again.
type bringing struct {
	up     Upload
	room   *store.Reservation // in the store; nil: still to be had
	cancel context.CancelFunc
	over   chan struct{}

	mu  sync.Mutex
	err error // of the last try
}

func (b *bringing) failed(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

// why is what the last try failed of, or empty.
func (b *bringing) why() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		return ""
	}
	return b.err.Error()
}

// goneError says that a share is lost, for good.
type goneError struct{ node, why string }

func (e *goneError) Error() string { return fmt.Sprintf("node %s: %s", e.node, e.why) }

// bring begins an upload, unless it is in progress, and ends an older one of the job.
func (c *Conductor) bring(up *Upload, room *store.Reservation) {
	ctx, cancel := context.WithCancel(c.daemonCtx)
	b := &bringing{up: *up, room: room, cancel: cancel, over: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.activeUploads[up.Job]
	if before != nil && before.up.same(up) {
		cancel()
		return
	}
	c.activeUploads[up.Job] = b
	c.background.Go(func() {
		defer cancel()
		if before != nil {
			before.cancel()
			<-before.over
		}
		c.bringSurely(ctx, b)
	})
}

// bringPending goes on with the uploads of a predecessor. What that had pledged, and was killed, counts for nothing.
func (c *Conductor) bringPending() error {
	all, err := c.uploads.all(uploadSuffix)
	for _, up := range all {
		if up.Leader == c.Node && up.Lost == "" {
			c.bring(up, nil)
		}
	}
	pledged, e := c.uploads.all(pledgeSuffix)
	err = errors.Join(err, e)
	for _, up := range pledged {
		if up.Leader == c.Node {
			err = errors.Join(err, c.uploads.removeOne(up.Job, pledgeSuffix))
		}
	}
	return err
}

// How long to wait after an upload that failed.
const (
	bringFirst = time.Second
	bringLast  = 30 * time.Second
)

// bringSurely goes on until the checkpoint is in the store, or never will be.
func (c *Conductor) bringSurely(ctx context.Context, b *bringing) {
	log := c.Log.With("job", b.up.Job, "checkpoint", b.up.Number)
	began := time.Now()
	log.Debug("phase begins", "phase", callUpload)
	err := c.bringOnce(ctx, b)
	for pause := bringFirst; err != nil && ctx.Err() == nil && !final(err); pause = min(2*pause, bringLast) {
		log.Warn("upload, again", "error", err)
		b.failed(err)
		if sleepUnlessDone(ctx, pause) {
			err = c.bringOnce(ctx, b)
		}
	}
	ctx = context.WithoutCancel(ctx)
	if b.room != nil {
		if e := b.room.Release(ctx); e != nil {
			log.Warn("room in the store", "error", e)
		}
	}
	log.Info("upload over", "took", time.Since(began), "error", err)
	var gone *goneError
	var after error
	if err == nil {
		c.inStore(c.idOf(&b.up))
		after = c.arrived(ctx, &b.up)
	} else if errors.As(err, &gone) {
		after = c.giveUpOn(ctx, &b.up, gone.Error())
	}
	if after != nil {
		log.Warn("after an upload", "error", after)
	}
	c.mu.Lock()
	if c.activeUploads[b.up.Job] == b {
		delete(c.activeUploads, b.up.Job)
	}
	c.mu.Unlock()
	close(b.over)
	if c.daemonCtx.Err() == nil {
		c.forgetShares(ctx, &b.up)
	}
}

// final says that another try would not help.
func final(err error) bool {
	var gone *goneError
	return errors.Is(err, errUnwanted) || errors.As(err, &gone)
}

// bringOnce brings all shares into the store and commits.
func (c *Conductor) bringOnce(ctx context.Context, b *bringing) (err error) {
	id := c.idOf(&b.up)
	if b.room == nil {
		if b.room, err = c.Store.Reserve(ctx, id.String(), b.up.Bytes); err != nil {
			return err
		}
	}
	w, err := c.Store.Create(ctx, store.Upload{ID: id, Node: c.Node, Reservation: b.room, Pace: c.uploadRate.wait})
	if errors.Is(err, fs.ErrExist) {
		return nil // who committed it died, or was not told
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Abort(context.WithoutCancel(ctx))) }()
	// After the lease: upload.go says why.
	if err := c.wanted(&b.up); err != nil {
		return err
	}
	meta, parts, err := c.gather(ctx, w, &b.up)
	if err != nil {
		return err
	}
	if err := c.wanted(&b.up); err != nil {
		return err
	}
	_, err = w.Commit(ctx, meta, parts...)
	return err
}

// gather has all nodes bring their shares.
func (c *Conductor) gather(ctx context.Context, w *store.Writer, up *Upload) (meta []byte, parts []store.Part, err error) {
	id := c.idOf(up)
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	for _, node := range up.Nodes {
		g.Go(func() error {
			if node == c.Node {
				var gone string
				meta, gone, err = c.importShare(ctx, w, id)
				if gone != "" {
					return &goneError{node, gone}
				}
				return err
			}
			var r bringReply
			if err := c.callNode(ctx, node, up.Job, up.Number, callUpload, bringBody{w.Ticket()}, &r); err != nil {
				return err
			}
			if r.Gone != "" || r.Part == nil {
				return &goneError{node, r.Gone}
			}
			mu.Lock()
			defer mu.Unlock()
			parts = append(parts, *r.Part)
			return nil
		})
	}
	return meta, parts, g.Wait()
}

// arrived is what follows a commit.
func (c *Conductor) arrived(ctx context.Context, up *Upload) error {
	left := up.Left
	err := c.uploads.change(up, func(now *Upload) bool { left = now.Left; return false })
	if err != nil {
		return err
	}
	c.noteUpload(up, eventStored, fmt.Sprintf("checkpoint %d", up.Number))
	if !left { // else the restore will say so
		if err := c.writeComment(ctx, up.Slurm, fmt.Sprintf("checkpoint %d of %s (%s) is in the store", up.Number, up.Made.Local().Format(time.TimeOnly), up.Reason)); err != nil {
			c.Log.Info("comment", "job", up.Job, "error", err)
		}
	}
	return c.deleteExpired(ctx, up.Job)
}

// giveUpOn says that a checkpoint will never be in the store. The record stays, so that its
// number is not given again and a restore knows what it does without.
func (c *Conductor) giveUpOn(ctx context.Context, up *Upload, why string) error {
	c.Log.Error("a checkpoint is lost", "job", up.Job, "checkpoint", up.Number, "why", why)
	c.noteUpload(up, eventLost, fmt.Sprintf("checkpoint %d: %s", up.Number, why))
	left := up.Left
	err := c.uploads.change(up, func(now *Upload) bool { now.Lost, left = why, now.Left; return true })
	if err == nil && !left {
		err = c.writeComment(ctx, up.Slurm, fmt.Sprintf("checkpoint %d is lost: %s", up.Number, why))
	}
	return err
}

// noteUpload adds to the job's time line, if the job is here.
func (c *Conductor) noteUpload(up *Upload, what, text string) {
	if j := c.findJob(up.Job); j != nil {
		j.addEvent(what, up.Nodes, text)
	}
}

// forgetShares has all nodes drop what they have of an upload that is over. One that is
// away does it by itself.
func (c *Conductor) forgetShares(ctx context.Context, up *Upload) {
	ctx, cancel := context.WithTimeout(ctx, finishDeadline)
	defer cancel()
	for _, node := range up.Nodes {
		if err := c.callNode(ctx, node, up.Job, up.Number, callDropShare, empty{}, nil); err != nil {
			c.Log.Info("a share will be dropped later", "job", up.Job, "checkpoint", up.Number, "error", err)
		}
	}
}
