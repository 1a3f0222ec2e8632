// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package upload

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// The memory of a device server is large, and most of it often stays the same for hours; so do the files that a job has
// written. So a dump takes over streams of the job's newest checkpoint, called the base: they become streams of the new
// checkpoint, under the same names. The base must be in the store and of the same run, because its device server must
// still live, and all changes to files since then must be known.
//
//	devices  The device server names the blocks that have not changed since the base, and does not write them. The base itself
//	         says which save of the device server it contains (DeviceMeta.Save), so a failed or lost save is never used; a
//	         server that does not know the save writes all blocks.
//	files    Content that has not changed since the base is neither read nor written again (files.Record).
//
// The new checkpoint lists the chunks itself: once it is in the store, it does not need the base.
//
//	into the store   the base is read under the lease of the upload, so its chunks stay, even if the base is deleted
//	into stages      the shares refer to the base. Until they are in the store, JOB.pledge and then JOB.upload
//	                 name the base, and no rule deletes it. If the base is missing when JOB.pledge is written,
//	                 the attempt is repeated without a base. The leader holds a lock meanwhile. A deletion by a
//	                 person or by a collection on another node looks just before and may miss a pledge of that
//	                 moment: then the upload reports the checkpoint as lost

// Base is the checkpoint of which a dump takes streams over. A nil Base is a dump without a base: it has no save, and is
// not used.
type Base struct {
	id    store.ID
	meta  *records.Meta
	carry func(ctx context.Context, name string) error
	used  atomic.Bool // a stream was taken over
}

// OpenBase opens a checkpoint as base of a dump into w. It returns nil for a checkpoint of another run: the device server
// that has the base's memory does not live any more.
func OpenBase(ctx context.Context, w ShareWriter, id store.ID, run int) (*Base, error) {
	m, carry, err := w.OpenBase(ctx, id)
	if err != nil {
		return nil, err
	}
	meta, err := records.DecodeMeta(m.Meta)
	if err != nil {
		return nil, err
	}
	if meta.Run != run {
		return nil, nil //nolint:nilnil // no error: there is no base
	}
	return &Base{id: id, meta: meta, carry: carry}, nil
}

// ID returns the checkpoint's ID. The base is not nil.
func (b *Base) ID() store.ID { return b.id }

// IsUsed tells whether a stream was taken over.
func (b *Base) IsUsed() bool { return b != nil && b.used.Load() }

// Capsule returns the base's entry of a capsule, or nil.
func (b *Base) Capsule(index int) *records.CapsuleMeta {
	if b == nil {
		return nil
	}
	return b.meta.Capsule(index)
}

// DeviceSave returns the name of the save that the base contains of a capsule's device server, or "".
func (b *Base) DeviceSave(index int) string {
	if m := b.Capsule(index); m != nil && m.Devices != nil {
		return m.Devices.Save
	}
	return ""
}

// CarryStreams takes over streams of a device server, or of files. An error is attributed to the base
// (ErrBaseUnusable), except for a full disk or the end of ctx, which would stop a dump without a
// base as well.
func (b *Base) CarryStreams(ctx context.Context, prefix string, names []string) error {
	for _, name := range names {
		b.used.Store(true)
		err := b.carry(ctx, prefix+name)
		if err != nil && !IsOutOfSpace(err) && ctx.Err() == nil {
			err = fmt.Errorf("%w: %w", ErrBaseUnusable, err)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// UnlessBase calls do unless a checkpoint is the base of a newer checkpoint. Meanwhile no checkpoint becomes dependent
// on it: either this function sees the pledge of the newer checkpoint, or the writer of the pledge sees the effect of
// do.
func (u *Uploads) UnlessBase(id store.ID, do func() error) error {
	u.folder.mu.Lock()
	defer u.folder.mu.Unlock()
	if u.IsNeededAsBase(id) {
		return nil
	}
	return do()
}

// checkBaseStored returns ErrBaseUnusable if the base of a staged checkpoint is not in the store.
// JOB.pledge already names the base, so a base that is found stays.
func (u *Uploads) checkBaseStored(ctx context.Context, up *Record) error {
	if up.Base == 0 {
		return nil
	}
	id := u.idOf(up)
	id.Number = up.Base
	r, err := u.Store.Open(ctx, id)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrBaseUnusable, err)
	}
	if err != nil {
		return err
	}
	return r.Close()
}

// IsNeededAsBase tells whether a checkpoint is the base of a checkpoint on its way to the store.
// It returns true if that cannot be determined.
func (u *Uploads) IsNeededAsBase(id store.ID) bool {
	for _, suffix := range []string{pledgeSuffix, uploadSuffix} { // in this order: a pledge that becomes an upload in between is still seen
		up, err := u.folder.readRecord(id.Job, suffix)
		if err != nil || up != nil && up.Lost == "" && up.Base == id.Number && u.idOf(up).JobID == id.JobID {
			return true
		}
	}
	return false
}
