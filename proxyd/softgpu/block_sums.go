// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/pages"
)

// sums remembers the hashes of an arena's blocks. A block that has the same hash in two saves is watched from then on,
// and not read while unchanged. (The first write to a watched page costs about as much as hashing the page, which would
// be a loss for memory that changes all the time.)
type sums struct {
	mu      sync.Mutex
	asked   bool
	known   map[uint64]blockSum // by the block's offset; nil: writes cannot be watched
	wipings int
}

type blockSum struct {
	key     [32]byte
	sum     backend.Hash
	watched bool
}

// sumBlock is the hash of a block of the arena. Only one caller at a time may ask for the same block.
func (a *arena) sumBlock(h *hasher, b []byte) backend.Hash {
	at := addressOf(b) - addressOf(a.bytes)
	if c := a.commonAt(at); c != nil {
		if sum, err := c.Sum(h.key, func() ([16]byte, error) { return h.hashBlock(b), nil }); err == nil {
			return sum
		}
	}
	if !a.isTouched(at) {
		return backend.Hash{}
	}
	old, wipings, ok := a.knownSum(at)
	if !ok {
		return h.hashBlock(b)
	}
	w := pages.Watching()
	if old.key != h.key {
		old = blockSum{}
	}
	if old.watched && !w.IsWritten(b) {
		return old.sum
	}
	// The block is watched during the hashing: a write at that time counts.
	maybe := old.key == h.key && !old.watched && w.Protect(b, true) == nil
	now := blockSum{key: h.key, sum: h.hashBlock(b)}
	now.watched = maybe && now.sum == old.sum
	if maybe && !now.watched {
		_ = w.Protect(b, false) // else its writes cost more
	}
	a.rememberSum(at, now, wipings)
	return now.sum
}

// knownSum finds the known sum of a block, and how many wipings there were until then; false if hashes are of no use.
func (a *arena) knownSum(at uint64) (blockSum, int, bool) {
	s := &a.sums
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := pages.Watching(); !s.asked {
		s.asked = true
		if w != nil && w.Register(a.bytes) == nil {
			s.known = map[uint64]blockSum{}
		}
	}
	return s.known[at], s.wipings, s.known != nil
}

// rememberSum notes a hash, unless bytes of the arena were wiped meanwhile.
func (a *arena) rememberSum(at uint64, now blockSum, wipings int) {
	s := &a.sums
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, at)
	if wipings == s.wipings {
		s.known[at] = now
	}
}

// forgetSum drops the hash of a block: its bytes have changed.
func (s *sums) forgetSum(at uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipings++
	delete(s.known, at)
}

// rewatchBlock has the kernel watch a block, for which the kernel was given new memory.
func (s *sums) rewatchBlock(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known != nil {
		_ = pages.Watching().Register(b) // where this fails, the block is hashed each time
	}
}

// wipeRange makes bytes of the arena zero. The kernel does not promise whether given-back pages count as written.
func (a *arena) wipeRange(b []byte) {
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
	a.wipeCommon(b, wipeBytes)
}

// forgetWritten forgets the hashes of written blocks: their bytes are about to move.
func (a *arena) forgetWritten() {
	s := &a.sums
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, x := range s.known {
		if x.watched && pages.Watching().IsWritten(a.bytes[at:][:backend.Granule]) {
			delete(s.known, at)
		}
	}
}

// protectCopied goes on watching the blocks that were copied back.
func (a *arena) protectCopied() {
	s := &a.sums
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, x := range s.known {
		if x.watched && pages.Watching().Protect(a.bytes[at:][:backend.Granule], true) != nil {
			delete(s.known, at)
		}
	}
}
