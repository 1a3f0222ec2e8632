// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

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
)

// errStageFull means that a dump did not fit into a stage.
var errStageFull = errors.New("the stage is full")

// isOutOfSpace tells whether a write failed for lack of space.
func isOutOfSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// reserveStage reserves room for this node's share, and tells whether there is room.
func (j *job) reserveStage(id store.ID, bytes uint64) bool {
	if j.c.Stage == nil {
		return false
	}
	room, err := j.c.Stage.Reserve(id, bytes)
	if err != nil {
		j.log.Info("no space in the stage", "checkpoint", id, "error", err)
		return false
	}
	j.mu.Lock()
	m := j.membership
	if m != nil && m.id == id {
		m.stageRoom = room
	}
	j.mu.Unlock()
	if m == nil || m.id != id {
		room.Release()
		return false
	}
	return true
}

// releaseStageRoom releases the room of reserveStage. It may be called twice.
func (m *membership) releaseStageRoom() {
	if m.stageRoom != nil {
		m.stageRoom.Release()
	}
}

// uploadRequest names the upload that a node joins.
type uploadRequest struct {
	Ticket store.Ticket `json:"ticket"`
}

type uploadReply struct {
	Part *store.Part `json:"part,omitempty"`
	Lost string      `json:"gone,omitempty"` // why the node can never provide its share
}

// uploadHere copies this node's share into the store.
func (c *Conductor) uploadHere(ctx context.Context, id store.ID, b uploadRequest) (r uploadReply, err error) {
	w, err := c.Store.Join(ctx, store.Upload{ID: id, Node: c.Node, Pace: c.uploadRate.wait}, b.Ticket)
	if err != nil {
		return r, err
	}
	defer func() {
		if err != nil || r.Lost != "" {
			err = errors.Join(err, w.Abort(context.WithoutCancel(ctx)))
		}
	}()
	if _, r.Lost, err = c.importShare(ctx, w, id); err != nil || r.Lost != "" {
		return r, err
	}
	part, err := w.Finish(ctx)
	r.Part = &part
	return r, err
}

// importShare copies this node's share into w. gone says why the share is lost, or is "".
func (c *Conductor) importShare(ctx context.Context, w *store.Writer, id store.ID) (meta []byte, gone string, err error) {
	if c.Stage == nil {
		return nil, "it has no staging folder any more", nil
	}
	kept, err := c.Stage.Open(id)
	if err == nil {
		err = c.importStreams(ctx, w, id, kept)
	}
	if errors.Is(err, stage.ErrLost) || errors.Is(err, errBaseUnusable) {
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

func (c *Conductor) importStreams(ctx context.Context, w *store.Writer, id store.ID, kept *stage.Kept) error {
	p := &shareProgress{report: func(done, total int64) { c.setShareProgress(id, done, total) }}
	for _, s := range kept.Streams {
		p.total += s.Size
	}
	p.add(0)
	if err := c.importBaseStreams(ctx, w, kept); err != nil {
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
func (c *Conductor) importBaseStreams(ctx context.Context, w *store.Writer, kept *stage.Kept) error {
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
			err = from.Carry(ctx, ownStream(c, s.Name), store.None, s.Name)
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrDamaged) || errors.Is(err, store.ErrRefused) {
			return fmt.Errorf("%s: %w: %w", s.Name, errBaseUnusable, err)
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

func (p *shareProgress) add(n int) {
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
	w.progress.add(n)
	return n, err
}

// setShareProgress notes how much of a share is copied.
func (c *Conductor) setShareProgress(id store.ID, done, total int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shareProgress[id] = [2]int64{done, total}
}

// shareStatusReply says how much of a node's share is in the store.
type shareStatusReply struct {
	Has       bool   `json:"has"`
	Done      int64  `json:"done"`
	Total     int64  `json:"total"`
	LastError string `json:"why,omitempty"` // on the leader: error of the last try
}

// shareStatusHere returns the progress of this node's share. A leader whose upload does not run
// starts it again.
func (c *Conductor) shareStatusHere(_ context.Context, id store.ID, _ empty) (r shareStatusReply, err error) {
	if r.Has, err = c.hasOwnShare(id); err != nil || !r.Has {
		return r, err
	}
	up, err := c.uploads.load(id.Job)
	if err == nil && up != nil && c.uploadID(up) == id && up.Leader == c.Node && up.Lost == "" {
		c.startUpload(up, nil)
	}
	c.mu.Lock()
	b := c.activeUploads[id.Job]
	at := c.shareProgress[id]
	c.mu.Unlock()
	if b != nil && c.uploadID(&b.upload) == id {
		r.LastError = b.lastError()
	}
	r.Done, r.Total = at[0], at[1]
	return r, err
}

func (c *Conductor) hasOwnShare(id store.ID) (bool, error) {
	if c.Stage == nil {
		return false, nil
	}
	_, err := c.Stage.Open(id)
	if errors.Is(err, stage.ErrLost) {
		return false, nil
	}
	return err == nil, err
}

// dropShareHere deletes this node's share of an upload that is over.
func (c *Conductor) dropShareHere(_ context.Context, id store.ID, _ empty) (empty, error) {
	if c.Stage == nil || c.isShareNeeded(id) {
		return empty{}, nil
	}
	return empty{}, c.dropShare(id)
}

// isShareNeeded tells whether a share may still be asked for. It returns true if that cannot be
// determined.
func (c *Conductor) isShareNeeded(id store.ID) bool {
	if j := c.findJob(id.Job); j != nil {
		j.mu.Lock()
		taking := j.membership != nil && j.membership.id == id
		j.mu.Unlock()
		if taking {
			return true
		}
	}
	up, err := c.uploads.load(id.Job)
	return err != nil || up != nil && c.uploadID(up) == id && up.Lost == "" && slices.Contains(up.Nodes, c.Node)
}

func (c *Conductor) dropShare(id store.ID) error {
	c.mu.Lock()
	delete(c.shareProgress, id)
	c.mu.Unlock()
	err := c.Stage.Delete(id)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return err
}

// shareGrace is the age up to which a committed share is kept without a record: longer than the
// slowest node of its attempt may dump.
const shareGrace = time.Hour

// dropUnneededShares deletes the shares that are not needed any more.
func (c *Conductor) dropUnneededShares() error {
	if c.Stage == nil {
		return nil
	}
	all, err := c.Stage.List(nil)
	for _, s := range all {
		if s.Err == nil && time.Since(s.Committed) < shareGrace || c.isShareNeeded(s.ID) {
			continue
		}
		c.Log.Info("delete an unneeded share", "checkpoint", s.ID)
		err = errors.Join(err, c.dropShare(s.ID))
	}
	return err
}

// rateLimit bounds the rate of this node's uploads.
type rateLimit struct {
	mu   sync.Mutex
	rate uint64 // bytes per second; 0: unlimited
	next time.Time
}

func (p *rateLimit) set(rate uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate = rate
}

// wait returns when n bytes may be sent.
func (p *rateLimit) wait(ctx context.Context, n int) error {
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
	if at.After(now) && !sleepUnlessDone(ctx, at.Sub(now)) {
		return context.Cause(ctx)
	}
	return nil
}
