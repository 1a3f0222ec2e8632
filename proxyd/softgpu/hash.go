// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"crypto/aes"
	"crypto/cipher"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/ledger"
)

// hasher makes keyed hashes of blocks: GMAC, the tag that AES-256-GCM has for a block as additional data. Its multiplications
// are as fast as memory is read, and without the key two blocks have the same tag with a chance of 2 to the
// -111. A single nonce is enough: tags stay beside their key.
type hasher struct {
	key  [32]byte
	gcm  cipher.AEAD
	zero backend.Hash // the tag of a block of zeros
}

func newHasher(key *[32]byte) (*hasher, error) {
	c, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	h := &hasher{key: *key}
	if h.gcm, err = cipher.NewGCM(c); err != nil {
		return nil, err
	}
	h.zero = h.hashTag(make([]byte, backend.Granule))
	return h, nil
}

func (h *hasher) hashTag(b []byte) (out backend.Hash) {
	var nonce [12]byte
	h.gcm.Seal(out[:0], nonce[:], nil, b)
	return out
}

// hashBlock is the hash of a block, backend.Hash{} of a zero block.
func (h *hasher) hashBlock(b []byte) backend.Hash {
	if t := h.hashTag(b); t != h.zero {
		return t
	}
	return backend.Hash{}
}

// Blocks implements backend.Space. Blocks that were not written since they were hashed are not read. Each core hashes
// blocks and hands them out: the bytes that yield reads of a block are still in the core's cache.
func (s *space) Blocks(key *[32]byte, yield func(backend.BlockID, backend.Hash) bool) error {
	h, err := newHasher(key)
	if err != nil {
		return err
	}
	workers := s.device.backend.cfg.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var all []backend.BlockID
	for _, r := range s.State().Regions() {
		all = append(all, ledger.IDs(r)...)
	}
	var next atomic.Int64
	var stop atomic.Bool
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for !stop.Load() {
				i := int(next.Add(1)) - 1
				if i >= len(all) {
					return
				}
				sum, err := s.hashBlock(h, all[i])
				if err != nil || !yield(all[i], sum) {
					errs[w] = err
					stop.Store(true)
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// hashBlock hashes a block.
func (s *space) hashBlock(h *hasher, id backend.BlockID) (sum backend.Hash, err error) {
	a, b, err := s.findBlock(id)
	if err != nil {
		return sum, err
	}
	if !guardReading(s, func() { sum = a.sumBlock(h, b) }) {
		return sum, errClosed
	}
	return sum, nil
}
