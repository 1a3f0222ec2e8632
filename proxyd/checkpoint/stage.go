// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// A node's stage is a store of its own. Its share of a checkpoint is a checkpoint there,
// of the same name; that of the leader has the Meta of the whole.

// errStageFull says that a dump did not fit into a stage after all.
var errStageFull = errors.New("the stage is full")

// full says whether a writer's failure is want of space.
func full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// stageRoom reserves room for this node's share, and says whether there is.
func (j *job) stageRoom(ctx context.Context, id store.ID, bytes uint64) bool {
	if j.c.Stage == nil {
		return false
	}
	room, err := j.c.Stage.Reserve(ctx, id.String(), bytes)
	if err != nil {
		j.log.Info("no room in the stage", "checkpoint", id, "error", err)
		return false
	}
	j.mu.Lock()
	p := j.part
	if p != nil && p.id == id {
		p.room = room
	}
	j.mu.Unlock()
	if p == nil || p.id != id {
		j.returnRoom(ctx, &part{room: room})
		return false
	}
	return true
}

// returnRoom gives back what stageRoom took. It may be called twice.
func (j *job) returnRoom(ctx context.Context, p *part) {
	if p.room == nil {
		return
	}
	if err := p.room.Release(ctx); err != nil {
		j.log.Warn("room in the stage", "error", err)
	}
}

// createShare begins this node's share. One of that name is of an attempt that failed.
func (c *Conductor) createShare(ctx context.Context, id store.ID) (*store.Writer, error) {
	w, err := c.Stage.Create(ctx, store.Upload{ID: id, Node: c.Node})
	if errors.Is(err, fs.ErrExist) {
		if err := c.Stage.Delete(ctx, id); err != nil {
			return nil, err
		}
		return c.Stage.Create(ctx, store.Upload{ID: id, Node: c.Node})
	}
	return w, err
}

// bringBody says which upload a node joins.
type bringBody struct {
	Ticket store.Ticket `json:"ticket"`
}

type bringReply struct {
	Part *store.Part `json:"part,omitempty"`
	Gone string      `json:"gone,omitempty"` // why there never will be one
}

// bringHere brings this node's share into the store.
func (c *Conductor) bringHere(ctx context.Context, id store.ID, b bringBody) (r bringReply, err error) {
	w, err := c.Store.Join(ctx, store.Upload{ID: id, Node: c.Node}, b.Ticket)
	if err != nil {
		return r, err
	}
	defer func() {
		if err != nil || r.Gone != "" {
			err = errors.Join(err, w.Abort(context.WithoutCancel(ctx)))
		}
	}()
	if _, r.Gone, err = c.importShare(ctx, w, id); err != nil || r.Gone != "" {
		return r, err
	}
	part, err := w.Finish(ctx)
	r.Part = &part
	return r, err
}

// importShare puts this node's share into w. gone says why nobody ever can.
func (c *Conductor) importShare(ctx context.Context, w *store.Writer, id store.ID) (meta []byte, gone string, err error) {
	if c.Stage == nil {
		return nil, "it has no staging folder any more", nil
	}
	c.advance(id, 0, 0)
	meta, err = w.Import(ctx, c.Stage, id, c.pace.wait, func(done, total int64) { c.advance(id, done, total) })
	if errors.Is(err, store.ErrSource) {
		return nil, err.Error(), nil
	}
	return meta, "", err
}

// advance notes how far a share is.
func (c *Conductor) advance(id store.ID, done, total int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shares[id] = [2]int64{done, total}
}

// shareReply is how a node's share fares.
type shareReply struct {
	Has   bool   `json:"has"`
	Done  int64  `json:"done"`
	Total int64  `json:"total"`
	Why   string `json:"why,omitempty"` // of a leader: what the last try failed of
}

// shareHere says how far this node's share is. A leader that is not at it begins again.
func (c *Conductor) shareHere(ctx context.Context, id store.ID, _ none) (r shareReply, err error) {
	if r.Has, err = c.hasShare(ctx, id); err != nil || !r.Has {
		return r, err
	}
	up, err := c.uploads.load(id.Job)
	if err == nil && up != nil && c.idOf(up) == id && up.Leader == c.Node && up.Lost == "" {
		c.bring(up, nil)
	}
	c.mu.Lock()
	b := c.bringing[id.Job]
	at := c.shares[id]
	c.mu.Unlock()
	if b != nil && c.idOf(&b.up) == id {
		r.Why = b.why()
	}
	r.Done, r.Total = at[0], at[1]
	return r, err
}

func (c *Conductor) hasShare(ctx context.Context, id store.ID) (bool, error) {
	if c.Stage == nil {
		return false, nil
	}
	all, err := c.Stage.List(ctx, &id.JobID)
	return slices.ContainsFunc(all, func(s store.Summary) bool { return s.ID == id && s.Err == nil }), err
}

// forgetHere drops this node's share of an upload that is over.
func (c *Conductor) forgetHere(ctx context.Context, id store.ID, _ none) (none, error) {
	has, err := c.hasShare(ctx, id)
	if err != nil || !has || c.needs(id) {
		return none{}, err
	}
	return none{}, c.dropShare(ctx, id)
}

// needs says whether a share may still be asked for. Who cannot tell keeps it.
func (c *Conductor) needs(id store.ID) bool {
	if j := c.known(id.Job); j != nil {
		j.mu.Lock()
		taking := j.part != nil && j.part.id == id
		j.mu.Unlock()
		if taking {
			return true
		}
	}
	up, err := c.uploads.load(id.Job)
	return err != nil || up != nil && c.idOf(up) == id && up.Lost == "" && slices.Contains(up.Nodes, c.Node)
}

func (c *Conductor) dropShare(ctx context.Context, id store.ID) error {
	c.mu.Lock()
	delete(c.shares, id)
	c.mu.Unlock()
	err := c.Stage.Delete(ctx, id)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, c.collectStage(ctx))
}

// collectStage frees what shares have left. What dumps or uploads in progress may need
// waits for the next time.
func (c *Conductor) collectStage(ctx context.Context) error {
	c.collecting.Lock()
	defer c.collecting.Unlock()
	r, err := c.Stage.GC(ctx, store.Policy{}, nil, false)
	c.uncollected = err != nil || r.Waiting > 0
	return err
}

// shareGrace is how old a share may become before somebody must ask for it: longer than
// the slowest node of its attempt may dump.
const shareGrace = time.Hour

// tidyStage drops the shares that nobody will ask for any more.
func (c *Conductor) tidyStage(ctx context.Context) error {
	if c.Stage == nil {
		return nil
	}
	c.collecting.Lock()
	collect := c.uncollected
	c.collecting.Unlock()
	all, err := c.Stage.List(ctx, nil)
	for _, s := range all {
		if s.Err == nil && time.Since(s.Created) < shareGrace || c.needs(s.ID) {
			continue
		}
		c.Log.Info("a share that nobody asks for", "checkpoint", s.ID)
		err = errors.Join(err, c.Stage.Delete(ctx, s.ID))
		collect = true
	}
	if collect {
		err = errors.Join(err, c.collectStage(ctx))
	}
	return err
}

// pace holds this node's uploads to a rate.
type pace struct {
	mu   sync.Mutex
	rate uint64 // bytes a second; 0: no limit
	next time.Time
}

func (p *pace) set(rate uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate = rate
}

// wait returns when it is the turn of n bytes.
func (p *pace) wait(ctx context.Context, n int) error {
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
	if at.After(now) && !wait(ctx, at.Sub(now)) {
		return context.Cause(ctx)
	}
	return nil
}
