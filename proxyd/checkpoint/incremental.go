// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// The memory of a device server is large, and most of it often stays the same for hours. So a
// dump takes over streams of the job's newest checkpoint: the device server names the blocks that
// have not changed since then and does not write them, and their streams become streams of the
// new checkpoint, under the same names. The older checkpoint is called the base. The base must be
// in the store and of the same run, because its device server must still live. The base itself
// says which save of the device server it contains (DeviceMeta.Save), so a failed or lost save is
// never used; a server that does not know the save writes all blocks. The new checkpoint lists
// the chunks itself: once it is in the store, it does not need the base.
//
//	into the store   the base is read under the lease of the upload, so its chunks stay, even if the base is deleted
//	into stages      the shares refer to the base. Until they are in the store, JOB.pledge and then JOB.upload
//	                 name the base, and no rule deletes it. If the base is missing when JOB.pledge is written,
//	                 the attempt is repeated without a base. The leader holds a lock meanwhile. A deletion by a
//	                 person or by a collection on another node looks just before and may miss a pledge of that
//	                 moment: then the upload reports the checkpoint as lost

// baseCheckpoint is the checkpoint of which a dump takes streams over.
type baseCheckpoint struct {
	id      store.ID
	meta    *records.Meta
	carry   func(ctx context.Context, name string) error
	carried bool // at least one stream was taken over
}

// chooseBase returns the number of the checkpoint that the nodes may use as base, or 0. Each node
// checks by itself whether the base fits, and reports whether it was used.
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
		a.log.Warn("cannot find the previous checkpoint", "error", err)
	}
	return id.Number
}

// OpenBase opens the checkpoint number as base of this node's dump. It returns nil if the
// checkpoint cannot be used.
func (p *participant) openBase(ctx context.Context, w upload.ShareWriter, id store.ID, number uint32) *baseCheckpoint {
	j := p.j
	if number == 0 {
		return nil
	}
	id.Number = number
	m, carry, err := w.OpenBase(ctx, id)
	var meta *records.Meta
	if err == nil {
		meta, err = records.DecodeMeta(m.Meta)
	}
	if err != nil { // The base may be deleted or damaged. The job is captured all the same.
		j.log.Warn("the previous checkpoint is not used as base", "checkpoint", id, "error", err)
		return nil
	}
	run := j.run.Snapshot().Number
	if meta.Run != run {
		return nil
	}
	return &baseCheckpoint{id: id, meta: meta, carry: carry}
}

// deviceSave returns the name of the save that the base contains of a capsule's device server, or
// "".
func (b *baseCheckpoint) deviceSave(index int) string {
	if b == nil {
		return ""
	}
	if m := b.meta.Capsule(index); m != nil && m.Devices != nil {
		return m.Devices.Save
	}
	return ""
}

// carryStreams takes over streams of a device server. An error is attributed to the base
// (ErrBaseUnusable), except for a full disk or the end of ctx, which would stop a dump without a
// base as well.
func (b *baseCheckpoint) carryStreams(ctx context.Context, prefix string, names []string) error {
	for _, name := range names {
		b.carried = true
		err := b.carry(ctx, prefix+name)
		if err != nil && !upload.IsOutOfSpace(err) && ctx.Err() == nil {
			err = fmt.Errorf("%w: %w", upload.ErrBaseUnusable, err)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
