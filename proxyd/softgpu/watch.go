// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// sums remembers the hashes of an arena's blocks. A block that has the same hash in two saves is watched from then on, and not
// read while unchanged. (The first write to a watched page costs about as much as hashing the page, which would be a
// loss for what changes all the time.)
type sums struct {
	mu      sync.Mutex
	asked   bool
	known   map[uint64]blockSum // by the block's offset; nil: there is no way to tell what is written
	wipings int
}

type blockSum struct {
	key     [32]byte
	sum     backend.Hash
	watched bool
}

// sum is the hash of a block of the arena. Only one caller at a time may ask for the same block.
func (a *arena) sum(h *hasher, b []byte) backend.Hash {
	if !touched(b) {
		return backend.Hash{}
	}
	at := addressOf(b) - addressOf(a.bytes)
	old, wipings, ok := a.known(at)
	if !ok {
		return h.sum(b)
	}
	w := watching()
	if old.key != h.key {
		old = blockSum{}
	}
	if old.watched && !w.written(b) {
		return old.sum
	}
	// The block is watched during the hashing: what is written meanwhile counts as written.
	maybe := old.key == h.key && !old.watched && w.protect(b, true) == nil
	now := blockSum{key: h.key, sum: h.sum(b)}
	now.watched = maybe && now.sum == old.sum
	if maybe && !now.watched {
		_ = w.protect(b, false) // else its writes cost more
	}
	a.remember(at, now, wipings)
	return now.sum
}

// known finds what is known of a block, and how often was wiped until then; false if hashes are of no use.
func (a *arena) known(at uint64) (blockSum, int, bool) {
	s := &a.sums
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := watching(); !s.asked {
		s.asked = true
		if w != nil && w.register(a.bytes) == nil {
			s.known = map[uint64]blockSum{}
		}
	}
	return s.known[at], s.wipings, s.known != nil
}

// remember notes a hash, unless something was wiped meanwhile.
func (a *arena) remember(at uint64, now blockSum, wipings int) {
	s := &a.sums
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, at)
	if wipings == s.wipings {
		s.known[at] = now
	}
}

// wipe makes bytes of the arena zero. The kernel does not promise whether given-back pages count as written.
func (a *arena) wipe(b []byte) {
	s := &a.sums
	s.mu.Lock()
	s.wipings++
	at := addressOf(b) - addressOf(a.bytes)
	for k := range s.known {
		if k < at+uint64(len(b)) && at < k+backend.Granule {
			delete(s.known, k)
		}
	}
	s.mu.Unlock()
	wipe(b)
}

// settle forgets the hashes of what was written: its bytes are about to move.
func (a *arena) settle() {
	s := &a.sums
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, x := range s.known {
		if x.watched && watching().written(a.bytes[at:][:backend.Granule]) {
			delete(s.known, at)
		}
	}
}

// protect goes on watching what was copied back.
func (a *arena) protect() {
	s := &a.sums
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, x := range s.known {
		if x.watched && watching().protect(a.bytes[at:][:backend.Granule], true) != nil {
			delete(s.known, at)
		}
	}
}
