// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/files"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// The memory of a device server is large, and most of it often stays the same for hours; so do the files that a job has
// written. So a dump takes over streams of the job's newest checkpoint, called the base: they become streams of the new
// checkpoint, under the same names. The base must be in the store and of the same run, because its device server must still
// live, and what happened to files since then must be known.
//
//	devices  The device server names the blocks that have not changed since the base, and does not write them. The base itself
//	         says which save of the device server it contains (DeviceMeta.Save), so a failed or lost save is never used; a
//	         server that does not know the save writes all blocks.
//	files    What is not changed since the base is neither read nor written again (files.Record).
//
// The new checkpoint lists the chunks itself: once it is in the store, it does not need the base.
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
	carried atomic.Bool // at least one stream was taken over
}

// With less than this, files are recorded as quickly as a base is opened.
const (
	manyBytes   = 16 << 20 // of content
	manyChanges = 10_000   // since the base
)

// profitsFromBase reports whether this node's dump can take streams over.
func (p *participant) profitsFromBase() bool {
	all := p.j.localCapsules()
	p.j.mu.Lock()
	defer p.j.mu.Unlock()
	return slices.ContainsFunc(all, func(lc *localCapsule) bool { return lc.devices != nil || lc.manyFiles })
}

// chooseBase returns the number of the checkpoint that the nodes may use as base, or 0. Each node
// checks by itself whether the base fits, and reports whether it was used.
func (a *attempt) chooseBase(ctx context.Context) uint32 {
	profits := false
	for _, r := range a.reports {
		profits = profits || len(r.Devices) > 0 || r.ManyFiles
	}
	if a.withoutBase || !profits {
		return 0
	}
	id, _, err := a.j.c.Store.Newest(ctx, a.id.JobID)
	if err != nil {
		a.log.Warn("cannot find the previous checkpoint", "error", err)
	}
	return id.Number
}

// openBase opens the checkpoint number as base of this node's dump. It returns nil if the
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

// filesOf returns the state of a capsule's files in the base, or nil if the base has none whose streams this node wrote.
func (b *baseCheckpoint) filesOf(index int, node string) *files.State {
	if b == nil {
		return nil
	}
	if m := b.meta.Capsule(index); m != nil && m.Node == node {
		return m.Files
	}
	return nil
}

// carryStreams takes over streams of a device server, or of files. An error is attributed to the base
// (ErrBaseUnusable), except for a full disk or the end of ctx, which would stop a dump without a
// base as well.
func (b *baseCheckpoint) carryStreams(ctx context.Context, prefix string, names []string) error {
	for _, name := range names {
		b.carried.Store(true)
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

// baseSink is a streamSink that takes streams of files over from a base.
type baseSink struct {
	streamSink
	base *baseCheckpoint
}

// Keep implements files.Keeper.
func (s baseSink) Keep(ctx context.Context, name string) error {
	return s.base.carryStreams(ctx, s.prefix, []string{name})
}
