// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"golang.org/x/sync/errgroup"
)

// ErrSource is wrapped by the error of a copy whose source is not there, or not whole:
// trying again would not help.
var ErrSource = errors.New("what is to be copied is not whole")

// Copy brings a checkpoint from one store to another, chunk by chunk, skipping what is
// there, and commits it last, sealed with the key of to. After an error, another Copy goes
// on where this one stopped, unless a collection came between. A checkpoint that is there
// already is fs.ErrExist. progress counts data bytes.
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
	c := &copier{from: from, w: w, progress: progress}
	if err = c.run(r.m); err == nil {
		err = w.publishCopy(ctx, r.m)
	}
	if err != nil {
		err = fmt.Errorf("checkpoint %s: copy: %w", id, err)
	}
	return errors.Join(err, w.Abort(ctx))
}

// publishCopy commits another store's manifest.
func (w *Writer) publishCopy(ctx context.Context, m *Manifest) error {
	if _, err := w.settle(ctx); err != nil {
		return err
	}
	return w.publish(ctx, m)
}

// Import puts the streams of a checkpoint of another store into this Writer as if they had
// been written here, chunk by chunk, skipping what is there, and returns that checkpoint's
// meta. pace is asked before each chunk that is put, from several goroutines, and may make
// it wait; it may be nil, as progress, which counts data bytes. After an error only Abort
// is left; it wraps ErrSource if from is to blame.
func (w *Writer) Import(ctx context.Context, from *Store, id ID, pace func(ctx context.Context, n int) error, progress Progress) (meta []byte, err error) {
	r, err := from.Open(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: import: %w", w.up.ID, blame(err))
	}
	defer r.Close()
	stop := context.AfterFunc(ctx, func() { w.fail(context.Cause(ctx)) })
	defer stop()
	c := &copier{from: from, w: w, pace: pace, progress: progress}
	if err := c.run(r.m); err != nil {
		return nil, fmt.Errorf("checkpoint %s: import: %w", w.up.ID, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range r.m.Streams {
		w.closed[s.StreamID] = s
	}
	w.stats.add(Stats{Logical: r.m.Stats.Logical, Zero: r.m.Stats.Zero, Inline: r.m.Stats.Inline})
	return r.m.Meta, nil
}

// blame marks an error of a source that is not whole.
func blame(err error) error {
	if missing(err) || errors.Is(err, ErrDamaged) || errors.Is(err, ErrRefused) || errors.Is(err, syscall.EIO) {
		return fmt.Errorf("%w: %w", ErrSource, err)
	}
	return err
}

type copier struct {
	from     *Store
	w        *Writer
	pace     func(context.Context, int) error // may be nil
	progress Progress                         // may be nil
}

func (c *copier) run(m *Manifest) error {
	g, ctx := errgroup.WithContext(c.w.ctx)
	g.SetLimit(c.w.st.opt.Lanes)
	queue := func(h Hash, n int, kind jobKind) {
		g.Go(func() error {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			return c.chunk(ctx, h, n, kind)
		})
	}
	var done int64
	total := m.Stats.Logical - m.Stats.Zero
	var err error
	for i := range m.Streams {
		err = c.stream(ctx, &m.Streams[i], queue, func(n int) {
			if done += int64(n); c.progress != nil {
				c.progress(done, total)
			}
		})
		if err != nil {
			break
		}
	}
	if failed := g.Wait(); failed != nil {
		return failed
	}
	return err
}

// stream queues all chunks of a stream, recipe included.
func (c *copier) stream(ctx context.Context, info *StreamInfo, queue func(Hash, int, jobKind), count func(int)) error {
	for _, p := range info.Pieces {
		queue(p.Hash, p.Size, recipePiece)
	}
	err := c.from.segments(ctx, info, func(g segment) error {
		if g.kind == segmentChunk {
			queue(g.hash, g.data, streamData)
		}
		count(g.data)
		return nil
	})
	return blame(err)
}

// chunk copies one chunk's file as it is, once it is verified.
func (c *copier) chunk(ctx context.Context, h Hash, n int, kind jobKind) error {
	here, err := c.w.here(h)
	if err != nil {
		return err
	}
	if here {
		c.w.countChunk(kind, n, 0)
		return nil
	}
	file, err := c.from.findChunk(ctx, h, nil)
	if err != nil {
		return blame(fmt.Errorf("chunk %s: %w", h, err))
	}
	if _, err := decodeChunk(nil, file, h, n, c.from.dec); err != nil {
		return blame(err)
	}
	if c.pace != nil {
		if err := c.pace(ctx, len(file)); err != nil {
			return err
		}
	}
	c.w.countChunk(kind, n, int64(len(file)))
	return c.w.crates.add(h, file)
}

// missing says that something is not there that should be.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
