// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package upload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/singularity-slurm/singularity-slurm/proxyd/stage"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/waits"
)

// ErrStageFull means that a dump did not fit into a stage.
var ErrStageFull = errors.New("the stage is full")

// ErrBaseUnusable means that the base could not be read. The dump is possible without a base.
var ErrBaseUnusable = errors.New("the previous checkpoint cannot be used as base")

// IsOutOfSpace tells whether a write failed for lack of space.
func IsOutOfSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// ShareReply is the answer of a node that was asked to copy its share.
type ShareReply struct {
	Part *store.NodeStreams
	Lost string // why the node can never provide its share
}

// UploadShareHere copies this node's share into the store.
func (u *Uploads) UploadShareHere(ctx context.Context, id store.ID, ticket store.Ticket) (r ShareReply, err error) {
	w, err := u.Store.Join(ctx, store.Upload{ID: id, Node: u.Node, Pace: u.rate.waitForRoom}, ticket)
	if err != nil {
		return r, err
	}
	defer func() {
		if err != nil || r.Lost != "" {
			err = errors.Join(err, w.Abort(context.WithoutCancel(ctx)))
		}
	}()
	if _, r.Lost, err = u.importShare(ctx, w, id); err != nil || r.Lost != "" {
		return r, err
	}
	part, err := w.Finish(ctx)
	r.Part = &part
	return r, err
}

// importShare copies this node's share into w. gone says why the share is lost, or is "".
func (u *Uploads) importShare(ctx context.Context, w *store.Writer, id store.ID) (meta []byte, gone string, err error) {
	if u.Stage == nil {
		return nil, "it has no staging folder any more", nil
	}
	kept, err := u.Stage.Open(id)
	if err == nil {
		err = u.importStreams(ctx, w, id, kept)
	}
	if errors.Is(err, stage.ErrLost) || errors.Is(err, ErrBaseUnusable) {
		return nil, err.Error(), nil
	}
	if err != nil {
		return nil, "", err
	}
	return kept.Meta, "", nil
}

// maxStreamsAtOnce bounds the streams that are copied in parallel. A large stream keeps the cores
// busy; most streams are small.
const maxStreamsAtOnce = 4

func (u *Uploads) importStreams(ctx context.Context, w *store.Writer, id store.ID, kept *stage.CommittedShare) error {
	p := &shareProgress{report: func(done, total int64) { u.setShareProgress(id, done, total) }}
	for _, s := range kept.Streams {
		p.total += s.Size
	}
	p.addBytes(0)
	if err := u.importBaseStreams(ctx, w, kept); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxStreamsAtOnce)
	for n, s := range kept.Streams {
		if s.From != nil {
			continue
		}
		g.Go(func() error {
			to, err := createStream(w, s.Name)
			if err != nil {
				return err
			}
			if err := kept.CopyTo(&progressWriter{ctx, to, p}, n); err != nil {
				return err
			}
			return to.Close()
		})
	}
	return g.Wait()
}

// importBaseStreams takes over the streams that a share refers to in another checkpoint. If that
// checkpoint or a stream of it is missing, the share is lost.
func (u *Uploads) importBaseStreams(ctx context.Context, w *store.Writer, kept *stage.CommittedShare) error {
	var from *store.Base
	for _, s := range kept.Streams {
		if s.From == nil {
			continue
		}
		var err error
		if from == nil || from.Manifest().ID != *s.From {
			from, err = w.Base(ctx, *s.From)
		}
		if err == nil {
			err = from.Carry(ctx, OwnStream(u.Node, s.Name), store.None, s.Name)
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrDamaged) || errors.Is(err, store.ErrRefused) {
			return fmt.Errorf("%s: %w: %w", s.Name, ErrBaseUnusable, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// shareProgress counts the copied bytes of a share.
type shareProgress struct {
	mu          sync.Mutex
	done, total int64
	report      func(done, total int64)
}

func (p *shareProgress) addBytes(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += int64(n)
	p.report(p.done, p.total)
}

// progressWriter forwards writes until ctx ends, and counts the bytes.
type progressWriter struct {
	ctx      context.Context
	to       io.Writer
	progress *shareProgress
}

func (w *progressWriter) Write(b []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := w.to.Write(b)
	w.progress.addBytes(n)
	return n, err
}

// setShareProgress notes how much of a share is copied.
func (u *Uploads) setShareProgress(id store.ID, done, total int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.shareProgress[id] = [2]int64{done, total}
}

// ShareStatus says how much of a node's share is in the store.
type ShareStatus struct {
	Has       bool
	Done      int64
	Total     int64
	LastError string // on the leader: error of the last try
}

// ShareStatusHere returns the progress of this node's share. A leader with an upload that does not run
// starts it again.
func (u *Uploads) ShareStatusHere(id store.ID) (r ShareStatus, err error) {
	if r.Has, err = u.hasOwnShare(id); err != nil || !r.Has {
		return r, err
	}
	up, err := u.folder.loadRecord(id.Job)
	if err == nil && up != nil && u.idOf(up) == id && up.Leader == u.Node && up.Lost == "" {
		u.Start(up, nil)
	}
	u.mu.Lock()
	b := u.active[id.Job]
	at := u.shareProgress[id]
	u.mu.Unlock()
	if b != nil && u.idOf(&b.upload) == id {
		r.LastError = b.lastError()
	}
	r.Done, r.Total = at[0], at[1]
	return r, err
}

func (u *Uploads) hasOwnShare(id store.ID) (bool, error) {
	if u.Stage == nil {
		return false, nil
	}
	_, err := u.Stage.Open(id)
	if errors.Is(err, stage.ErrLost) {
		return false, nil
	}
	return err == nil, err
}

// DropShareHere deletes this node's share of an upload that is over.
func (u *Uploads) DropShareHere(id store.ID) error {
	if u.Stage == nil || u.isShareNeeded(id) {
		return nil
	}
	return u.dropShare(id)
}

// isShareNeeded tells whether a share may still be asked for. It returns true if that cannot be
// determined.
func (u *Uploads) isShareNeeded(id store.ID) bool {
	if u.Conductor.IsCapturing(id) {
		return true
	}
	up, err := u.folder.loadRecord(id.Job)
	return err != nil || up != nil && u.idOf(up) == id && up.Lost == "" && slices.Contains(up.Nodes, u.Node)
}

func (u *Uploads) dropShare(id store.ID) error {
	u.mu.Lock()
	delete(u.shareProgress, id)
	u.mu.Unlock()
	err := u.Stage.Delete(id)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return err
}

// shareGrace is the age up to which a committed share is kept without a record: longer than the
// slowest node of its attempt may dump.
const shareGrace = time.Hour

// DropUnneededShares deletes the shares that are not needed any more.
func (u *Uploads) DropUnneededShares() error {
	if u.Stage == nil {
		return nil
	}
	all, err := u.Stage.List(nil)
	for _, s := range all {
		if s.Err == nil && time.Since(s.Committed) < shareGrace || u.isShareNeeded(s.ID) {
			continue
		}
		u.Log.Info("delete an unneeded share", "checkpoint", s.ID)
		err = errors.Join(err, u.dropShare(s.ID))
	}
	return err
}

// rateLimit bounds the rate of this node's uploads.
type rateLimit struct {
	mu   sync.Mutex
	rate uint64 // bytes per second; 0: unlimited
	next time.Time
}

func (p *rateLimit) setRate(rate uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate = rate
}

// waitForRoom returns when n bytes may be sent.
func (p *rateLimit) waitForRoom(ctx context.Context, n int) error {
	p.mu.Lock()
	if p.rate == 0 {
		p.mu.Unlock()
		return nil
	}
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	at := p.next
	p.next = at.Add(time.Duration(float64(n) / float64(p.rate) * float64(time.Second)))
	p.mu.Unlock()
	if at.After(now) && !waits.SleepUnlessDone(ctx, at.Sub(now)) {
		return context.Cause(ctx)
	}
	return nil
}
