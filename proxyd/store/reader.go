// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
)

// Reader reads a checkpoint. While the Reader is open, the checkpoint's chunks stay, even if the
// checkpoint is deleted. Its methods may be called concurrently. A Reader must be closed, else its
// claim lives as long as the process.
type Reader struct {
	st    *Store
	m     *Manifest
	claim *claim
	ctx   context.Context
	end   context.CancelCauseFunc
}

// Open opens a checkpoint; ctx bounds the reading. The manifest is trusted only if it has this
// cluster's seal, lies in its own place and has the right owner: otherwise the error is a
// *RefusedError, or a *DamagedError. A missing checkpoint is fs.ErrNotExist.
func (s *Store) Open(ctx context.Context, id ID) (*Reader, error) {
	if err := id.checkName(); err != nil {
		return nil, err
	}
	// The claim comes first: from now on a delete waits for this reader.
	l, err := s.acquireClaim(ctx, readClaim, id.String(), 0, func(error) {})
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", id, err)
	}
	m, err := s.loadManifest(ctx, manifestName(id), id)
	if err != nil {
		return nil, errors.Join(err, l.releaseClaim(ctx))
	}
	r := &Reader{st: s, m: m, claim: l}
	r.ctx, r.end = context.WithCancelCause(ctx)
	return r, nil
}

// Manifest returns the checkpoint's manifest. The caller must not change the manifest.
func (r *Reader) Manifest() *Manifest { return r.m }

// Stream begins to read a stream; each call is independent. The error for an unknown stream wraps
// fs.ErrNotExist.
func (r *Reader) Stream(id StreamID) (*StreamReader, error) {
	if err := context.Cause(r.ctx); err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", r.m.ID, err)
	}
	info := r.m.Stream(id)
	if info == nil {
		return nil, fmt.Errorf("checkpoint %s: stream %s: %w", r.m.ID, id, errNoStream)
	}
	return newStreamReader(r, info), nil
}

// EachChunk calls f with the chunks of which a stream is made, in order, and with the plain bytes of each. f is called
// twice for a chunk that the stream has twice. Short streams, which are kept in the manifest, have no chunks. The error
// for an unknown stream wraps fs.ErrNotExist.
func (r *Reader) EachChunk(id StreamID, f func(h Hash, bytes int)) error {
	info := r.m.Stream(id)
	if info == nil {
		return fmt.Errorf("checkpoint %s: stream %s: %w", r.m.ID, id, errNoStream)
	}
	err := r.st.eachStreamSegment(r.ctx, info, func(g segment) error {
		if g.kind == segmentChunk {
			f(g.hash, g.data)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("checkpoint %s: stream %s: %w", r.m.ID, id, err)
	}
	return nil
}

// Close ends the Reader; streams that are still being read fail with ErrClosed. Close may be called
// twice.
func (r *Reader) Close() error {
	r.end(ErrClosed)
	return r.claim.releaseClaim(context.WithoutCancel(r.ctx))
}
