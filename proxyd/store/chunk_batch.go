// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"sync"
)

// Chunks are short, and making a file durable is expensive, so they are put in batches. While a
// batch is on its way, the next is filled.
const (
	batchSize  = 4 << 20 // bytes of chunk files
	batchFiles = 512     // chunk files
	maxBatches = 3       // batches of a Writer, full or being filled
)

// chunkBatches collects a Writer's chunk files. A chunkBatches is safe for concurrent use.
type chunkBatches struct {
	w    *Writer
	free chan *chunkBatch // empty batches; at most maxBatches exist
	sent sync.WaitGroup

	mu   sync.Mutex
	fill *chunkBatch
}

// chunkBatch is a batch of chunk files that are put together.
type chunkBatch struct {
	files []File
	arena []byte // storage of files
}

func newBatches(w *Writer) *chunkBatches {
	c := &chunkBatches{w: w, free: make(chan *chunkBatch, maxBatches)}
	for range maxBatches {
		c.free <- new(chunkBatch)
	}
	return c
}

// addChunk copies a chunk's file into the current batch. addChunk waits while too many batches are
// on their way.
func (c *chunkBatches) addChunk(h Hash, parts ...[]byte) error {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fill != nil && (len(c.fill.arena)+n > batchSize || len(c.fill.files) >= batchFiles) {
		c.sendBatch()
	}
	if c.fill == nil {
		if err := c.takeBatch(); err != nil {
			return err
		}
	}
	if n > cap(c.fill.arena)-len(c.fill.arena) {
		c.fill.enlargeStorage(n)
	}
	at := len(c.fill.arena)
	for _, p := range parts {
		c.fill.arena = append(c.fill.arena, p...)
	}
	c.fill.files = append(c.fill.files, File{chunkName(h), c.fill.arena[at:]})
	return nil
}

// enlargeStorage makes space for n bytes: first a little, which suffices for many Writers, then for a
// whole batch. Files that point into the old storage stay as they are.
func (k *chunkBatch) enlargeStorage(n int) {
	room := batchSize
	if k.arena == nil && n <= batchSize/16 {
		room = batchSize / 16
	}
	k.arena = append(make([]byte, 0, room), k.arena...)
}

// takeBatch waits for an empty batch. The caller holds c.mu.
func (c *chunkBatches) takeBatch() error {
	select {
	case c.fill = <-c.free:
	case <-c.w.ctx.Done():
		return c.w.Err()
	}
	c.fill.arena, c.fill.files = c.fill.arena[:0], c.fill.files[:0]
	return nil
}

// sendBatch puts the current batch. The caller holds c.mu.
func (c *chunkBatches) sendBatch() {
	full := c.fill
	c.fill = nil
	c.sent.Go(func() {
		if err := c.w.st.be.Put(c.w.ctx, full.files...); err != nil {
			c.w.fail(fmt.Errorf("chunks: %w", err))
			return
		}
		c.w.up.Reservation.markUsed(uint64(len(full.arena)))
		c.free <- full
	})
}

// flushBatches puts the current batch and waits for all batches. If the Writer has failed, the batches are dropped.
func (c *chunkBatches) flushBatches() {
	c.mu.Lock()
	if c.fill != nil {
		c.sendBatch()
	}
	c.mu.Unlock()
	c.sent.Wait()
}
