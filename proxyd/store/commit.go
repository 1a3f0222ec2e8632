// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
)

// NodeStreams has the streams that a node wrote; the leader adds them to the manifest. NodeStreams may travel as JSON.
type NodeStreams struct {
	ID      ID           `json:"id"`
	Streams []StreamInfo `json:"streams"`
	Stats   Stats        `json:"stats"`
}

// Finish ends the Writer of a node that is not the leader. All its streams must be closed.
// Afterwards the written data is durable, and protected by the leader's claim alone.
func (w *Writer) Finish(ctx context.Context) (NodeStreams, error) {
	part, err := w.finishWorkers(ctx)
	if err == nil {
		w.fail(ErrClosed)
	}
	return part, err
}

// Commit makes the checkpoint exist, with this node's streams and the other nodes' parts. All streams must be closed.
// The manifest keeps meta for the caller. If the error is nil, the checkpoint survives any crash. After an error there
// is no checkpoint, unless ctx ended or the folder was lost at that very moment; the Writer has failed, and only Abort
// may be called.
func (w *Writer) Commit(ctx context.Context, meta []byte, parts ...NodeStreams) (ID, error) {
	if w.own == nil {
		return ID{}, fmt.Errorf("checkpoint %s: commit: only the leader's Writer can", w.up.ID)
	}
	part, err := w.finishWorkers(ctx)
	if err != nil {
		return ID{}, err
	}
	m, err := w.makeManifest(meta, append(parts, part))
	if err == nil {
		err = w.publishManifest(ctx, m)
	}
	if err != nil {
		w.fail(err)
		return ID{}, fmt.Errorf("checkpoint %s: commit: %w", w.up.ID, err)
	}
	_ = w.own.releaseClaim(ctx) // the checkpoint exists; a claim that stays expires
	w.fail(ErrClosed)
	return w.up.ID, nil
}

// finishWorkers ends the chunk workers and makes their work durable.
func (w *Writer) finishWorkers(ctx context.Context) (NodeStreams, error) {
	if err := w.Err(); err != nil {
		return NodeStreams{}, err
	}
	if err := w.stopStreams(); err != nil {
		return NodeStreams{}, fmt.Errorf("checkpoint %s: %w", w.up.ID, err)
	}
	if err := w.st.be.Sync(ctx, w.usedFolders()...); err != nil {
		w.fail(err)
		return NodeStreams{}, w.Err()
	}
	part := NodeStreams{ID: w.up.ID, Streams: slices.Collect(maps.Values(w.closed)), Stats: w.Stats()}
	return part, w.Err()
}

// stopStreams prevents that more streams begin, and waits for the chunk workers.
func (w *Writer) stopStreams() error {
	w.mu.Lock()
	for id := range w.open {
		w.mu.Unlock()
		return fmt.Errorf("stream %s: not closed", id)
	}
	first := !w.ended
	w.ended = true
	w.mu.Unlock()
	if !first {
		return ErrClosed
	}
	close(w.chunks)
	w.workers.Wait()
	w.batches.flushBatches()
	return nil
}

// makeManifest puts the parts together.
func (w *Writer) makeManifest(meta []byte, parts []NodeStreams) (*Manifest, error) {
	m := &Manifest{ID: w.up.ID, Created: w.st.opt.Now().UTC(), Meta: meta}
	for _, p := range parts {
		if p.ID != w.up.ID {
			return nil, fmt.Errorf("part of %s", p.ID)
		}
		m.Streams = append(m.Streams, p.Streams...)
		m.Stats.addStats(p.Stats)
	}
	slices.SortFunc(m.Streams, func(a, b StreamInfo) int { return compareStreams(a.StreamID, b.StreamID) })
	for i, s := range m.Streams {
		if err := s.checkInfo(); err != nil {
			return nil, err
		}
		if i > 0 && m.Streams[i-1].StreamID == s.StreamID {
			return nil, fmt.Errorf("stream %s: in two parts", s.StreamID)
		}
	}
	return m, nil
}

// publishManifest is the commit: it moves the manifest out of the claim's folder. The move fails if other processes
// have declared this process dead.
func (w *Writer) publishManifest(ctx context.Context, m *Manifest) error {
	file, err := sealManifest(m, w.st.key)
	if err != nil {
		return err
	}
	be, from, to := w.st.be, w.claim.manifestPath(), manifestName(m.ID)
	folder := path.Dir(to)
	if err := be.Put(ctx, File{from, file}); err != nil {
		return w.asFenced(ctx, err)
	}
	for {
		if err := ensureFolders(ctx, be, folder); err != nil {
			return err
		}
		if err = be.Move(ctx, from, to); err == nil {
			break
		}
		if w.isPublished(ctx, to, file) {
			break // the move succeeded, but its answer was lost
		}
		if err := w.asFenced(ctx, err); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		// A collector has removed the job's empty folder; make it again.
	}
	return w.st.syncIfThere(ctx, folder) // The manifest is there, unless the checkpoint is deleted already.
}

// asFenced returns ErrFenced if the claim is gone and that is the reason for err, else err.
func (w *Writer) asFenced(ctx context.Context, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, lost := w.st.be.Stat(ctx, w.claim.folderPath()); errors.Is(lost, fs.ErrNotExist) {
		return ErrFenced
	}
	return err
}

// isPublished tells whether exactly this manifest is at its name.
func (w *Writer) isPublished(ctx context.Context, name string, file []byte) bool {
	there, err := w.st.be.Get(ctx, name, maxManifest, nil)
	return err == nil && bytes.Equal(there, file)
}

// Abort ends the Writer without a checkpoint. Abort may be called at any time, and runs to its end even if ctx is done.
// After Commit, Abort has no effect. Chunks that were put stay until they are collected. Calls in progress return
// ErrAborted.
func (w *Writer) Abort(ctx context.Context) error {
	w.fail(ErrAborted)
	w.mu.Lock()
	first := !w.ended
	w.ended = true
	w.mu.Unlock()
	if first {
		w.workers.Wait()
		w.batches.flushBatches()
	}
	if w.own == nil || errors.Is(context.Cause(w.ctx), ErrClosed) {
		return nil
	}
	if err := w.own.releaseClaim(ctx); err != nil {
		return fmt.Errorf("checkpoint %s: abort: %w", w.up.ID, err)
	}
	return nil
}
