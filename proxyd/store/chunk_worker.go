// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"
)

// runChunkWorker processes chunks one after the other, until there are no more chunks or the Writer fails. The worker
// holds a core during hashing and compression, and releases the core while waiting for the file system.
func (w *Writer) runChunkWorker() {
	var scratch []byte
	for {
		j, ok := w.nextChunk()
		if !ok {
			return
		}
		var err error
		if scratch, err = w.storeChunk(j, scratch); err != nil {
			w.fail(err)
			return
		}
		w.free <- j.buf[:0]
		close(j.slot.done)
	}
}

// nextChunk waits for a chunk; false means that there are no more chunks.
func (w *Writer) nextChunk() (chunkTask, bool) {
	select {
	case j, ok := <-w.chunks:
		return j, ok
	case <-w.ctx.Done():
		return chunkTask{}, false
	}
}

// storeChunk puts a chunk into a batch, unless the store has it. storeChunk returns the memory for
// compressing the next chunk.
func (w *Writer) storeChunk(j chunkTask, scratch []byte) ([]byte, error) {
	if err := w.waitForCore(); err != nil {
		return nil, err
	}
	j.slot.hash = hashOf(j.buf)
	w.st.cores <- struct{}{}
	here, err := w.isStored(j.slot.hash)
	if err != nil {
		return nil, fmt.Errorf("chunk %s: %w", j.slot.hash, err)
	}
	if here {
		w.countChunk(j.kind, len(j.buf), 0)
		return scratch, nil
	}
	if err := w.waitForCore(); err != nil {
		return nil, err
	}
	if cap(scratch) < packedMax(len(j.buf)) {
		scratch = make([]byte, 0, packedMax(levelMax(len(j.buf))))
	}
	head, payload := encodeChunk(scratch, j.buf)
	w.st.cores <- struct{}{}
	if pace := w.up.Pace; pace != nil {
		if err := pace(w.ctx, len(head)+len(payload)); err != nil {
			return nil, err
		}
	}
	w.countChunk(j.kind, len(j.buf), int64(len(head)+len(payload)))
	return scratch, w.batches.addChunk(j.slot.hash, head[:], payload)
}

// waitForCore waits for a core, which the caller releases.
func (w *Writer) waitForCore() error {
	select {
	case <-w.st.cores:
		return nil
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	}
}

// isStored tells whether a chunk is in the store, or will be if this Writer does not fail.
func (w *Writer) isStored(h Hash) (bool, error) {
	if w.seen.noteChunk(h) {
		return true, nil
	}
	if err := w.folder[h[0]].refreshFolder(w.ctx, w.st.be, chunkFolder(h[0])); err != nil {
		return false, err
	}
	info, err := w.st.be.Stat(w.ctx, chunkName(h))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.Size > chunkHeader && !info.Dir, err
}

// countChunk counts a chunk of n plain bytes, of which stored went into the store.
func (w *Writer) countChunk(kind taskKind, n int, stored int64) {
	s := Stats{Stored: stored}
	if stored > 0 {
		s.NewChunks = 1
	}
	if kind == streamData {
		s.Chunks = 1
		if stored > 0 {
			s.New = int64(n)
		} else {
			s.Dedup = int64(n)
		}
	}
	w.addStats(s)
}

// folderState is a chunk folder as this Writer has seen it.
type folderState struct {
	mu   sync.Mutex
	used bool
}

// refreshFolder makes sure that a look into the folder shows the state after the claim was made: until the folder is
// opened, NFS may remember older names, of chunks that were collected since. Later removals do not matter, because they
// respect the claim.
func (f *folderState) refreshFolder(ctx context.Context, be Backend, dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.used {
		return nil
	}
	err := be.Refresh(ctx, dir)
	f.used = err == nil
	return err
}

// usedFolders returns the folders with this Writer's chunks.
func (w *Writer) usedFolders() []string {
	var dirs []string
	for i := range w.folder {
		f := &w.folder[i]
		f.mu.Lock()
		if f.used {
			dirs = append(dirs, chunkFolder(byte(i)))
		}
		f.mu.Unlock()
	}
	return dirs
}

// submitChunk hands buf to a chunk worker, which frees buf.
func (w *Writer) submitChunk(buf []byte, runs []run, kind taskKind) (*chunkSlot, error) {
	j := chunkTask{buf, &chunkSlot{runs: runs, size: len(buf), done: make(chan struct{})}, kind}
	select {
	case w.chunks <- j:
		return j.slot, nil
	case <-w.ctx.Done():
		return nil, w.Err()
	}
}

// waitForBuffer waits for an empty buffer. Idle streams may hold all buffers; so after a short wait the chunks of idle
// streams are cut where they are. That costs some deduplication, and prevents a deadlock.
func (w *Writer) waitForBuffer() ([]byte, error) {
	const patience = 20 * time.Millisecond
	for {
		select {
		case b := <-w.free:
			return b, nil
		default:
		}
		wait := time.NewTimer(patience)
		select {
		case b := <-w.free:
			wait.Stop()
			return b, nil
		case <-w.ctx.Done():
			wait.Stop()
			return nil, w.Err()
		case <-wait.C:
		}
		if err := w.cutIdleStreams(); err != nil {
			return nil, err
		}
	}
}

// cutIdleStreams cuts the chunks of idle streams. The caller holds its own stream's lock, so
// cutIdleStreams only tries the locks of other streams.
func (w *Writer) cutIdleStreams() error {
	w.mu.Lock()
	open := make([]*Stream, 0, len(w.open))
	for _, s := range w.open {
		open = append(open, s)
	}
	w.mu.Unlock()
	for _, s := range open {
		if !s.mu.TryLock() {
			continue
		}
		err := s.cutChunk()
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}
