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

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// uploadRun is an upload that this node leads. It ends with the daemon; the successor starts it
// again.
type uploadRun struct {
	upload      Upload
	reservation *store.Reservation // in the store; nil: not reserved yet
	cancel      context.CancelFunc
	done        chan struct{}

	mu  sync.Mutex
	err error // of the last try
}

func (b *uploadRun) setError(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

// lastError returns the error of the last try, or "".
func (b *uploadRun) lastError() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		return ""
	}
	return b.err.Error()
}

// shareLostError means that a node has lost its share.
type shareLostError struct{ node, why string }

func (e *shareLostError) Error() string { return fmt.Sprintf("node %s: %s", e.node, e.why) }

// startUpload starts an upload, unless it runs already. It ends an older upload of the job.
func (c *Conductor) startUpload(up *Upload, room *store.Reservation) {
	ctx, cancel := context.WithCancel(c.daemonCtx)
	b := &uploadRun{upload: *up, reservation: room, cancel: cancel, done: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.activeUploads[up.Job]
	if before != nil && before.upload.isSame(up) {
		cancel()
		return
	}
	c.activeUploads[up.Job] = b
	c.background.Go(func() {
		defer cancel()
		if before != nil {
			before.cancel()
			<-before.done
		}
		c.runUpload(ctx, b)
	})
}

// resumeUploads resumes the uploads of this daemon's predecessor, and removes its pledges.
func (c *Conductor) resumeUploads() error {
	all, err := c.uploads.loadAll(uploadSuffix)
	for _, up := range all {
		if up.Leader == c.Node && up.Lost == "" {
			c.startUpload(up, nil)
		}
	}
	pledged, e := c.uploads.loadAll(pledgeSuffix)
	err = errors.Join(err, e)
	for _, up := range pledged {
		if up.Leader == c.Node {
			err = errors.Join(err, c.uploads.removeRecord(up.Job, pledgeSuffix))
		}
	}
	return err
}

// Pauses after a failed upload; each is twice the one before, up to uploadLongestWait.
const (
	uploadFirstWait   = time.Second
	uploadLongestWait = 30 * time.Second
)

// runUpload repeats an upload until the checkpoint is in the store or can never be.
func (c *Conductor) runUpload(ctx context.Context, b *uploadRun) {
	log := c.Log.With("job", b.upload.Job, "checkpoint", b.upload.Number)
	began := time.Now()
	log.Debug("phase begins", "phase", callUpload)
	err := c.tryUpload(ctx, b)
	for pause := uploadFirstWait; err != nil && ctx.Err() == nil && !isFinal(err); pause = min(2*pause, uploadLongestWait) {
		log.Warn("upload failed; trying again", "error", err)
		b.setError(err)
		if sleepUnlessDone(ctx, pause) {
			err = c.tryUpload(ctx, b)
		}
	}
	ctx = context.WithoutCancel(ctx)
	if b.reservation != nil {
		if e := b.reservation.Release(ctx); e != nil {
			log.Warn("release space in the store", "error", e)
		}
	}
	log.Info("upload over", "took", time.Since(began), "error", err)
	var gone *shareLostError
	var after error
	if err == nil {
		c.reportStored(c.uploadID(&b.upload))
		after = c.finishUpload(ctx, &b.upload)
	} else if errors.As(err, &gone) {
		after = c.markUploadLost(ctx, &b.upload, gone.Error())
	}
	if after != nil {
		log.Warn("clean up after an upload", "error", after)
	}
	c.mu.Lock()
	if c.activeUploads[b.upload.Job] == b {
		delete(c.activeUploads, b.upload.Job)
	}
	c.mu.Unlock()
	close(b.done)
	if c.daemonCtx.Err() == nil {
		c.dropShares(ctx, &b.upload)
	}
}

// isFinal tells whether another try cannot succeed.
func isFinal(err error) bool {
	var gone *shareLostError
	return errors.Is(err, errUploadUnwanted) || errors.As(err, &gone)
}

// tryUpload copies all shares into the store and commits the manifest.
func (c *Conductor) tryUpload(ctx context.Context, b *uploadRun) (err error) {
	id := c.uploadID(&b.upload)
	if b.reservation == nil {
		if b.reservation, err = c.Store.Reserve(ctx, id.String(), b.upload.Bytes); err != nil {
			return err
		}
	}
	w, err := c.Store.Create(ctx, store.Upload{ID: id, Node: c.Node, Reservation: b.reservation, Pace: c.uploadRate.wait})
	if errors.Is(err, fs.ErrExist) {
		return nil // An earlier try committed and died, or did not get the answer.
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Abort(context.WithoutCancel(ctx))) }()
	// After taking the lease: upload_record.go explains why.
	if err := c.checkWanted(&b.upload); err != nil {
		return err
	}
	meta, parts, err := c.uploadShares(ctx, w, &b.upload)
	if err != nil {
		return err
	}
	if err := c.checkWanted(&b.upload); err != nil {
		return err
	}
	_, err = w.Commit(ctx, meta, parts...)
	return err
}

// uploadShares has all nodes copy their shares into the store.
func (c *Conductor) uploadShares(ctx context.Context, w *store.Writer, up *Upload) (meta []byte, parts []store.Part, err error) {
	id := c.uploadID(up)
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	for _, node := range up.Nodes {
		g.Go(func() error {
			if node == c.Node {
				var gone string
				meta, gone, err = c.importShare(ctx, w, id)
				if gone != "" {
					return &shareLostError{node, gone}
				}
				return err
			}
			var r uploadReply
			if err := c.callNode(ctx, node, up.Job, up.Number, callUpload, uploadRequest{w.Ticket()}, &r); err != nil {
				return err
			}
			if r.Lost != "" || r.Part == nil {
				return &shareLostError{node, r.Lost}
			}
			mu.Lock()
			defer mu.Unlock()
			parts = append(parts, *r.Part)
			return nil
		})
	}
	return meta, parts, g.Wait()
}

// finishUpload removes the record of an upload that is in the store, and tells the user.
func (c *Conductor) finishUpload(ctx context.Context, up *Upload) error {
	left := up.Released
	err := c.uploads.change(up, func(now *Upload) bool { left = now.Released; return false })
	if err != nil {
		return err
	}
	c.addUploadEvent(up, records.EventStored, fmt.Sprintf("checkpoint %d", up.Number))
	if !left { // else the restore tells the user
		if err := c.writeComment(ctx, up.Slurm, fmt.Sprintf("checkpoint %d of %s (%s) is in the store", up.Number, up.Made.Local().Format(time.TimeOnly), up.Reason)); err != nil {
			c.Log.Info("write the job's comment", "job", up.Job, "error", err)
		}
	}
	return c.deleteExpired(ctx, up.Job)
}

// markUploadLost notes that a checkpoint will never be in the store. The record stays, so that
// the number is not used again and a restore can name the lost checkpoint.
func (c *Conductor) markUploadLost(ctx context.Context, up *Upload, why string) error {
	c.Log.Error("a checkpoint is lost", "job", up.Job, "checkpoint", up.Number, "why", why)
	c.addUploadEvent(up, records.EventLost, fmt.Sprintf("checkpoint %d: %s", up.Number, why))
	left := up.Released
	err := c.uploads.change(up, func(now *Upload) bool { now.Lost, left = why, now.Released; return true })
	if err == nil && !left {
		err = c.writeComment(ctx, up.Slurm, fmt.Sprintf("checkpoint %d is lost: %s", up.Number, why))
	}
	return err
}

// addUploadEvent adds an event to the job's time line, if this node knows the job.
func (c *Conductor) addUploadEvent(up *Upload, what, text string) {
	if j := c.findJob(up.Job); j != nil {
		j.addEvent(what, up.Nodes, text)
	}
}

// dropShares has all nodes delete their shares of an upload that is over. A node that does not
// answer does so later by itself.
func (c *Conductor) dropShares(ctx context.Context, up *Upload) {
	ctx, cancel := context.WithTimeout(ctx, finishDeadline)
	defer cancel()
	for _, node := range up.Nodes {
		if err := c.callNode(ctx, node, up.Job, up.Number, callDropShare, empty{}, nil); err != nil {
			c.Log.Info("a share will be dropped later", "job", up.Job, "checkpoint", up.Number, "error", err)
		}
	}
}
