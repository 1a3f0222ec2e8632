// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package filestate

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/files"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// OldestMark returns the least mark that a job's checkpoints in the store have of a capsule's change list: no restore asks
// for changes before it. It is 0 if the job has no checkpoint, or if a checkpoint has no mark or cannot be read.
func OldestMark(ctx context.Context, s *store.Store, job store.JobID, index int) (files.Mark, error) {
	all, err := s.List(ctx, &job)
	if err != nil || len(all) == 0 {
		return 0, err
	}
	var marks []files.Mark
	for _, sum := range all {
		if sum.Err != nil {
			return 0, nil //nolint:nilerr // it may be readable again: all changes are kept for it
		}
		var mark files.Mark
		err := readCheckpoint(ctx, s, sum.ID, func(_ *store.Reader, meta *records.Meta) error {
			mark = readMark(meta, index)
			return nil
		})
		if err != nil {
			return 0, err
		}
		marks = append(marks, mark)
	}
	return slices.Min(marks), nil
}

// LoadNewest returns the state of a capsule's files at the newest checkpoint of a job's run in the store that has a mark
// of since or later; nil if there is none. A checkpoint that cannot be read is passed over, and is in the error.
func LoadNewest(ctx context.Context, s *store.Store, job store.JobID, run, index int, since files.Mark) (state *files.State, err error) {
	all, err := s.List(ctx, &job)
	slices.SortFunc(all, func(a, b store.Summary) int { return cmp.Compare(b.ID.Number, a.ID.Number) })
	for _, sum := range all {
		err = errors.Join(err, readCheckpoint(ctx, s, sum.ID, func(r *store.Reader, meta *records.Meta) (err error) {
			if meta.Run == run && readMark(meta, index) >= max(since, 1) {
				state, err = Load(r, meta.Capsule(index))
			}
			return err
		}))
		if state != nil {
			return state, err
		}
	}
	return nil, err
}

// readMark returns the mark of a capsule's change list at a checkpoint; 0: a checkpoint of an older release does not say.
func readMark(meta *records.Meta, index int) files.Mark {
	if m := meta.Capsule(index); m != nil && m.FilesSummary != nil {
		return m.FilesSummary.Mark
	}
	return 0
}

// readCheckpoint calls read with a checkpoint.
func readCheckpoint(ctx context.Context, s *store.Store, id store.ID, read func(*store.Reader, *records.Meta) error) error {
	r, err := s.Open(ctx, id)
	if err != nil {
		return err
	}
	defer r.Close()
	meta, err := records.DecodeMeta(r.Manifest().Meta)
	if err != nil {
		return err
	}
	return read(r, meta)
}
