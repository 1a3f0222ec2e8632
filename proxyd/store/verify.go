// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"golang.org/x/sync/errgroup"
)

// VerifyReport has the results of Verify.
type VerifyReport struct {
	Checkpoints int   // checkpoints that were deleted meanwhile do not count
	Chunks      int64 // read, each once
	Bytes       int64 // plain bytes of these
	Problems    []error
}

// Verify reads every chunk of some checkpoints, or of all if ids is nil, and checks everything
// that a restore would. The report lists the problems of the store, each with the checkpoint and
// object concerned; an error means only that Verify could not go on. progress counts data bytes
// of streams.
func (s *Store) Verify(ctx context.Context, ids []ID, progress Progress) (VerifyReport, error) {
	v := &verifier{s: s, progress: progress, seen: make(map[Hash]error)}
	if progress == nil {
		v.progress = func(int64, int64) {}
	}
	list, err := v.listCheckpoints(ctx, ids)
	if err != nil {
		return v.report, fmt.Errorf("verify: %w", err)
	}
	for _, c := range list {
		v.total += c.Stats.Logical - c.Stats.Zero
	}
	for _, c := range list {
		v.report.Checkpoints++
		if c.Err != nil {
			v.addProblem(c.Err)
			continue
		}
		if err := v.verifyCheckpoint(ctx, c.ID); err != nil {
			return v.report, fmt.Errorf("verify: %w", err)
		}
	}
	return v.report, nil
}

// listCheckpoints finds the checkpoints. A checkpoint that is missing was deleted just now, and is left out.
func (v *verifier) listCheckpoints(ctx context.Context, ids []ID) ([]Summary, error) {
	if ids == nil {
		return v.s.List(ctx, nil)
	}
	var list []Summary
	for _, id := range ids {
		one, err := v.s.readSummary(ctx, id)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		default:
			list = append(list, one)
		}
	}
	return list, nil
}

type verifier struct {
	s        *Store
	progress Progress
	total    int64

	mu     sync.Mutex
	done   int64
	seen   map[Hash]error // the error of each chunk that was read, nil if it is sound
	report VerifyReport
}

func (v *verifier) addProblem(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.report.Problems = append(v.report.Problems, err)
}

// verifyCheckpoint verifies a checkpoint. It returns errors that do not concern the store's
// content, such as ctx's.
func (v *verifier) verifyCheckpoint(ctx context.Context, id ID) error {
	r, err := v.s.Open(ctx, id)
	if errors.Is(err, fs.ErrNotExist) { // running jobs delete their older checkpoints
		v.report.Checkpoints--
		return nil
	}
	if err != nil {
		return v.collectProblem(err)
	}
	defer r.Close()
	for i := range r.m.Streams {
		info := &r.m.Streams[i]
		wrap := func(err error) error {
			return fmt.Errorf("checkpoint %s: stream %s: %w", id, info.StreamID, err)
		}
		if err := v.verifyStream(ctx, info, wrap); err != nil {
			return err
		}
	}
	return nil
}

// collectProblem keeps problems of the store and returns other errors.
func (v *verifier) collectProblem(err error) error {
	if errors.Is(err, ErrDamaged) || errors.Is(err, ErrRefused) || errors.Is(err, ErrForeign) || isMissing(err) {
		v.addProblem(err)
		return nil
	}
	return err
}

func (v *verifier) verifyStream(ctx context.Context, info *StreamInfo, wrap func(error) error) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(v.s.opt.Lanes)
	err := v.s.eachStreamSegment(gctx, info, func(seg segment) error {
		if seg.kind != segmentChunk {
			return nil
		}
		h, n := seg.hash, seg.data
		g.Go(func() error {
			if err := v.verifyChunk(gctx, h, n); err != nil {
				return v.collectProblem(wrap(err))
			}
			return nil
		})
		return nil
	})
	if failed := g.Wait(); failed != nil {
		return failed
	}
	if err != nil {
		return v.collectProblem(wrap(err))
	}
	return nil
}

// verifyChunk reads a chunk, or returns the result of the first read.
func (v *verifier) verifyChunk(ctx context.Context, h Hash, n int) error {
	v.mu.Lock()
	known, ok := v.seen[h]
	v.mu.Unlock()
	if !ok {
		var file []byte
		_, known = v.s.loadChunk(ctx, h, n, nil, &file)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, other := v.seen[h]; !other {
		v.seen[h] = known
		v.report.Chunks++
		v.report.Bytes += int64(n)
	}
	v.done += int64(n)
	v.progress(v.done, v.total)
	return known
}

// isMissing tells whether an error means that an object which should exist does not.
func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
