// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// A device server's memory is large, and much of it is the same for hours. So a dump takes over what its job's newest checkpoint
// has of it: the server names the blocks that have not changed since, and does not write them, and their streams become the new
// checkpoint's, by name. That one, the base, must be in the store, and of the same run: its server still lives then. Which save it has
// of the server it says itself (DeviceMeta.Save), so nothing that failed, or got lost on its way, is built upon; a server that does
// not know that save writes all. The new checkpoint names the chunks itself: once it is in the store it needs its base no more.
//
//	into the store   the base is read when the upload's lease is there: what it has stays, whoever deletes it
//	into stages      the shares name the base. Until they are in the store too, JOB.pledge and then JOB.upload say that it is needed, and it
//	                 is not deleted by any rule. If it is gone when JOB.pledge is written, the attempt is made once more, without.
//	                 The node that leads has a lock for that; who deletes elsewhere, a person or a collection, looks just before, and
//	                 may miss what is pledged in that moment: then the upload says that it is lost

// baseCheckpoint is a checkpoint upon which a node dumps.
type baseCheckpoint struct {
	id      store.ID
	meta    *Meta
	carry   func(ctx context.Context, name string) error
	carried bool // something was taken over
}

// errBaseUnusable says that a base is not what it seemed to be: the dump is possible without.
var errBaseUnusable = errors.New("the checkpoint before cannot be built upon")

// chooseBase returns the number of the checkpoint that the nodes may dump upon, 0 if there is none. Each looks itself whether it can,
// and says whether it did.
func (a *attempt) chooseBase(ctx context.Context) uint32 {
	devices := 0
	for _, r := range a.reports {
		devices += len(r.Devices)
	}
	if a.withoutBase || devices == 0 {
		return 0
	}
	id, _, err := a.j.c.Store.Newest(ctx, a.id.JobID)
	if err != nil {
		a.log.Warn("the checkpoint before is not found", "error", err)
	}
	return id.Number
}

// openBase opens the checkpoint of that number for this node's dump; nil if there is none to dump upon.
func (j *job) openBase(ctx context.Context, w shareWriter, id store.ID, number uint32) *baseCheckpoint {
	if number == 0 {
		return nil
	}
	id.Number = number
	m, carry, err := w.openBase(ctx, j.c, id)
	var meta *Meta
	if err == nil {
		meta, err = decodeMeta(m.Meta)
	}
	if err != nil { // it may be deleted, or damaged, and the job is to be captured all the same
		j.log.Warn("the checkpoint before is not built upon", "checkpoint", id, "error", err)
		return nil
	}
	j.mu.Lock()
	run := j.run
	j.mu.Unlock()
	if meta.Run != run {
		return nil
	}
	return &baseCheckpoint{id: id, meta: meta, carry: carry}
}

// deviceSave returns which save of its device server the base has of a capsule; "" if none.
func (b *baseCheckpoint) deviceSave(index int) string {
	if b == nil {
		return ""
	}
	if m := b.meta.capsule(index); m != nil && m.Devices != nil {
		return m.Devices.Save
	}
	return ""
}

// carryStreams takes over files of a device server. What fails of them is the base's fault, as far as is known; but without it neither is a
// disk less full nor has anybody more time.
func (b *baseCheckpoint) carryStreams(ctx context.Context, prefix string, names []string) error {
	for _, name := range names {
		b.carried = true
		err := b.carry(ctx, prefix+name)
		if err != nil && !isOutOfSpace(err) && ctx.Err() == nil {
			err = fmt.Errorf("%w: %w", errBaseUnusable, err)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// openBase implements outlet.
func (o storeShare) openBase(ctx context.Context, c *Conductor, id store.ID) (*store.Manifest, func(context.Context, string) error, error) {
	b, err := o.Base(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	return b.Manifest(), func(ctx context.Context, name string) error {
		return b.Carry(ctx, ownStream(c, name), store.None, name)
	}, nil
}

// openBase implements outlet.
func (o stageShare) openBase(ctx context.Context, c *Conductor, id store.ID) (*store.Manifest, func(context.Context, string) error, error) {
	_, m, err := c.MetaOf(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	return m, func(_ context.Context, name string) error {
		if m.Stream(ownStream(c, name)) == nil {
			return fs.ErrNotExist
		}
		return o.Carry(name, id)
	}, nil
}

// ownStream is a stream that this node has made.
func ownStream(c *Conductor, name string) store.StreamID {
	return store.StreamID{Node: c.Node, Rank: store.None, Name: name}
}

// createStream begins a stream in the store. Those of a device's blocks are split so that equal blocks are found wherever they are.
func createStream(w *store.Writer, name string) (*store.Stream, error) {
	if _, file, _ := strings.Cut(name, "/"+devicesFolder+"/"); strings.HasPrefix(file, server.BlocksPrefix) {
		return w.Blocks(store.None, name, server.BlockLength)
	}
	return w.Stream(store.None, name)
}

// checkBaseStored returns errBase if what a staged checkpoint is made upon is not in the store. JOB.pledge names it already, so from now on it
// stays.
func (c *Conductor) checkBaseStored(ctx context.Context, up *Upload) error {
	if up.Base == 0 {
		return nil
	}
	id := c.uploadID(up)
	id.Number = up.Base
	r, err := c.Store.Open(ctx, id)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", errBaseUnusable, err)
	}
	if err != nil {
		return err
	}
	return r.Close()
}

// IsNeededAsBase says that a checkpoint is the base of one that is on its way to the store. Who cannot tell keeps it.
func (c *Conductor) IsNeededAsBase(id store.ID) bool {
	for _, suffix := range []string{pledgeSuffix, uploadSuffix} { // in this order, so that none is missed which becomes the other
		up, err := c.uploads.read(id.Job, suffix)
		if err != nil || up != nil && up.Lost == "" && up.Base == id.Number && c.uploadID(up).JobID == id.JobID {
			return true
		}
	}
	return false
}
