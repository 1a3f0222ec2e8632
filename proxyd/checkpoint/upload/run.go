// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package upload

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
	"github.com/singularity-slurm/singularity-slurm/proxyd/waits"
)

// uploadRun is an upload that this node leads. It ends with the daemon; the successor starts it
// again.
type uploadRun struct {
	upload      Record
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

// Start starts an upload, unless it runs already. It ends an older upload of the job.
func (u *Uploads) Start(up *Record, room *store.Reservation) {
	ctx, cancel := context.WithCancel(u.daemonCtx)
	b := &uploadRun{upload: *up, reservation: room, cancel: cancel, done: make(chan struct{})}
	u.mu.Lock()
	defer u.mu.Unlock()
	before := u.active[up.Job]
	if before != nil && before.upload.IsSame(up) {
		cancel()
		return
	}
	u.active[up.Job] = b
	u.background.Go(func() {
		defer cancel()
		if before != nil {
			before.cancel()
			<-before.done
		}
		u.runUpload(ctx, b)
	})
}

// Resume resumes the uploads of this daemon's predecessor, and removes its pledges.
func (u *Uploads) Resume() error {
	all, err := u.folder.loadAll(uploadSuffix)
	for _, up := range all {
		if up.Leader == u.Node && up.Lost == "" {
			u.Start(up, nil)
		}
	}
	pledged, e := u.folder.loadAll(pledgeSuffix)
	err = errors.Join(err, e)
	for _, up := range pledged {
		if up.Leader == u.Node {
			err = errors.Join(err, u.folder.removeRecord(up.Job, pledgeSuffix))
		}
	}
	return err
}

// Pauses after a failed upload; each is twice the pause before, up to uploadLongestWait.
const (
	uploadFirstWait   = time.Second
	uploadLongestWait = 30 * time.Second
)

// runUpload repeats an upload until the checkpoint is in the store or can never be.
func (u *Uploads) runUpload(ctx context.Context, b *uploadRun) {
	log := u.Log.With("job", b.upload.Job, "checkpoint", b.upload.Number)
	began := time.Now()
	log.Debug("step begins", "step", Step)
	err := u.tryUpload(ctx, b)
	for pause := uploadFirstWait; err != nil && ctx.Err() == nil && !isFinal(err); pause = min(2*pause, uploadLongestWait) {
		log.Warn("upload failed; trying again", "error", err)
		b.setError(err)
		if waits.SleepUnlessDone(ctx, pause) {
			err = u.tryUpload(ctx, b)
		}
	}
	ctx = context.WithoutCancel(ctx)
	if b.reservation != nil {
		if e := b.reservation.Release(ctx); e != nil {
			log.Warn("cannot release space in the store", "error", e)
		}
	}
	log.Info("upload over", "took", time.Since(began), "error", err)
	var gone *shareLostError
	var after error
	if err == nil {
		u.Conductor.ReportStored(u.idOf(&b.upload))
		after = u.finishUpload(ctx, &b.upload)
	} else if errors.As(err, &gone) {
		after = u.markUploadLost(ctx, &b.upload, gone.Error())
	}
	if after != nil {
		log.Warn("cannot clean up after an upload", "error", after)
	}
	u.mu.Lock()
	if u.active[b.upload.Job] == b {
		delete(u.active, b.upload.Job)
	}
	u.mu.Unlock()
	close(b.done)
	if u.daemonCtx.Err() == nil {
		u.dropShares(ctx, &b.upload)
	}
}

// isFinal tells whether another try cannot succeed.
func isFinal(err error) bool {
	var gone *shareLostError
	return errors.Is(err, errUploadUnwanted) || errors.As(err, &gone)
}

// tryUpload copies all shares into the store and commits the manifest.
func (u *Uploads) tryUpload(ctx context.Context, b *uploadRun) (err error) {
	id := u.idOf(&b.upload)
	if b.reservation == nil {
		if b.reservation, err = u.Store.Reserve(ctx, id.String(), b.upload.Bytes); err != nil {
			return err
		}
	}
	w, err := u.Store.Create(ctx, store.Upload{ID: id, Node: u.Node, Reservation: b.reservation, Pace: u.rate.waitForRoom})
	if errors.Is(err, fs.ErrExist) {
		return nil // An earlier try committed and died, or did not get the answer.
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Abort(context.WithoutCancel(ctx))) }()
	// After taking the lease: record.go explains why.
	if err := u.checkWanted(&b.upload); err != nil {
		return err
	}
	meta, parts, err := u.uploadShares(ctx, w, &b.upload)
	if err != nil {
		return err
	}
	if err := u.checkWanted(&b.upload); err != nil {
		return err
	}
	_, err = w.Commit(ctx, meta, parts...)
	return err
}

// uploadShares has all nodes copy their shares into the store.
func (u *Uploads) uploadShares(ctx context.Context, w *store.Writer, up *Record) (meta []byte, parts []store.NodeStreams, err error) {
	id := u.idOf(up)
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	for _, node := range up.Nodes {
		g.Go(func() error {
			if node == u.Node {
				var gone string
				meta, gone, err = u.importShare(ctx, w, id)
				if gone != "" {
					return &shareLostError{node, gone}
				}
				return err
			}
			r, err := u.Conductor.UploadShare(ctx, node, id, w.Ticket())
			if err != nil {
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
func (u *Uploads) finishUpload(ctx context.Context, up *Record) error {
	left := up.Released
	err := u.folder.changeRecord(up, func(now *Record) bool { left = now.Released; return false })
	if err != nil {
		return err
	}
	u.Conductor.AddUploadEvent(up, records.EventStored, fmt.Sprintf("checkpoint %d", up.Number))
	if !left { // else the restore tells the user
		if err := u.Conductor.WriteComment(ctx, up.Slurm, fmt.Sprintf("checkpoint %d of %s (%s) is in the store", up.Number, up.Made.Local().Format(time.TimeOnly), up.Reason)); err != nil {
			u.Log.Info("write the job's comment", "job", up.Job, "error", err)
		}
	}
	return u.Conductor.DeleteExpired(ctx, up.Job)
}

// markUploadLost notes that a checkpoint will never be in the store. The record stays, so that the number is not used
// again and a restore can name the lost checkpoint. Of several nodes that report the loss, the first one gives the
// reason: after that, the leader drops all shares, and a node that then misses its share cannot know the cause. An
// upload without a record is not lost: it is in the store, or a newer one has taken its place.
func (u *Uploads) markUploadLost(ctx context.Context, up *Record, why string) error {
	var first, left bool
	err := u.folder.changeRecord(up, func(now *Record) bool {
		first, left = now.Lost == "", now.Released
		if first {
			now.Lost = why
		}
		return true
	})
	if err != nil || !first {
		return err
	}
	u.Log.Error("a checkpoint is lost", "job", up.Job, "checkpoint", up.Number, "why", why)
	u.Conductor.AddUploadEvent(up, records.EventLost, fmt.Sprintf("checkpoint %d: %s", up.Number, why))
	if left { // the restore tells the user
		return nil
	}
	return u.Conductor.WriteComment(ctx, up.Slurm, fmt.Sprintf("checkpoint %d is lost: %s", up.Number, why))
}

// dropSharesTimeout bounds the calls by which all nodes delete their shares.
const dropSharesTimeout = 30 * time.Second

// Step is the name of an upload in the log, and for people that wait for the upload.
const Step = "upload"

// dropShares has all nodes delete their shares of an upload that is over. A node that does not
// answer does so later by itself.
func (u *Uploads) dropShares(ctx context.Context, up *Record) {
	ctx, cancel := context.WithTimeout(ctx, dropSharesTimeout)
	defer cancel()
	for _, node := range up.Nodes {
		if err := u.Conductor.DropShare(ctx, node, u.idOf(up)); err != nil {
			u.Log.Info("a share will be dropped later", "job", up.Job, "checkpoint", up.Number, "error", err)
		}
	}
}
