// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import "sync"

// recentChunks remembers the chunks of a Writer, at least the last recentSize and at most twice as many. A forgotten
// chunk is looked up in the file system again.
type recentChunks struct {
	mu        sync.Mutex
	now, then map[Hash]struct{}
}

const recentSize = 32 << 10

func newRecent() *recentChunks { return &recentChunks{now: make(map[Hash]struct{})} }

// noteChunk notes h, and tells whether h was noted before. The first caller for a chunk stores
// the chunk; later callers need not wait: if the first fails, the whole Writer fails.
func (r *recentChunks) noteChunk(h Hash) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, now := r.now[h]
	_, then := r.then[h]
	if !now {
		r.now[h] = struct{}{}
	}
	if len(r.now) >= recentSize {
		r.now, r.then = make(map[Hash]struct{}), r.now
	}
	return now || then
}
