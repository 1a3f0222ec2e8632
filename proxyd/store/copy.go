// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sync/errgroup"
)

// Copy copies a checkpoint from a store to another, chunk by chunk, skips chunks that exist there, and commits the
// manifest last, sealed with the key of to. After an error another Copy continues, unless a collection ran in between.
// If the checkpoint exists already, the error is fs.ErrExist. progress counts data bytes.
func Copy(ctx context.Context, from, to *Store, id ID, progress Progress) error {
	r, err := from.Open(ctx, id)
	if err != nil {
		return err
	}
	defer r.Close()
	// The node does not matter: this Writer has no streams.
	w, err := to.Create(ctx, Upload{ID: id, Node: "copy"})
	if err != nil {
		return err
	}
	c := &checkpointCopier{from: from, w: w, progress: progress, total: r.m.Stats.Logical - r.m.Stats.Zero}
	if err = c.copyAll(r.m); err == nil {
		err = w.publishCopy(ctx, r.m)
	}
	if err != nil {
		err = fmt.Errorf("checkpoint %s: copy: %w", id, err)
	}
	return errors.Join(err, w.Abort(ctx))
}

// publishCopy commits another store's manifest.
func (w *Writer) publishCopy(ctx context.Context, m *Manifest) error {
	if _, err := w.finishWorkers(ctx); err != nil {
		return err
	}
	return w.publishManifest(ctx, m)
}

type checkpointCopier struct {
	from     *Store
	w        *Writer
	progress Progress
	done     int64 // data bytes of the streams that were queued
	total    int64
}

func (c *checkpointCopier) copyAll(m *Manifest) error {
	g, ctx := errgroup.WithContext(c.w.ctx)
	g.SetLimit(c.w.st.opt.Lanes)
	queue := func(h Hash, n int) {
		g.Go(func() error {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			return c.copyChunk(ctx, h, n)
		})
	}
	var err error
	for i := range m.Streams {
		if err = c.queueStream(ctx, &m.Streams[i], queue); err != nil {
			break
		}
	}
	if failed := g.Wait(); failed != nil {
		return failed
	}
	return err
}

// queueStream queues all chunks of a stream, recipe included.
func (c *checkpointCopier) queueStream(ctx context.Context, info *StreamInfo, queue func(Hash, int)) error {
	for _, p := range info.Pieces {
		queue(p.Hash, p.Size)
	}
	return c.from.eachStreamSegment(ctx, info, func(g segment) error {
		if g.kind == segmentChunk {
			queue(g.hash, g.data)
		}
		if c.done += int64(g.data); c.progress != nil {
			c.progress(c.done, c.total)
		}
		return nil
	})
}

// copyChunk verifies a chunk's file and copies it unchanged.
func (c *checkpointCopier) copyChunk(ctx context.Context, h Hash, n int) error {
	here, err := c.w.isStored(h)
	if here || err != nil {
		return err
	}
	file, err := c.from.findChunk(ctx, h, nil)
	if err != nil {
		return fmt.Errorf("chunk %s: %w", h, err)
	}
	if _, err := decodeChunk(nil, file, h, n, c.from.dec); err != nil {
		return err
	}
	c.w.addStats(Stats{Stored: int64(len(file)), NewChunks: 1, New: int64(n)})
	return c.w.batches.addChunk(h, file)
}

// isMissing tells whether an error means that an object which should exist does not.
func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
