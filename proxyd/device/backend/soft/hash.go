// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"runtime"
	"sync"

	"github.com/zeebo/blake3"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// hasher makes keyed hashes of blocks, one at a time.
type hasher struct{ *blake3.Hasher }

func (h hasher) sum(b []byte) (out backend.Hash) {
	h.Reset()
	_, _ = h.Write(b)
	_, _ = h.Digest().Read(out[:])
	return out
}

// ids lists the blocks of a region.
func ids(r backend.Region) []backend.BlockID {
	out := make([]backend.BlockID, 0, r.Size/backend.Granule)
	for at := uint64(0); at < r.Size; at += backend.Granule {
		if r.Memory != 0 {
			out = append(out, backend.BlockID{Memory: r.Memory, Offset: at})
		} else {
			out = append(out, backend.BlockID{Base: r.Base + backend.Addr(at)})
		}
	}
	return out
}

// Blocks implements backend.Space. It hashes on all cores, a few blocks ahead of yield.
func (s *space) Blocks(key *[32]byte, yield func(backend.BlockID, backend.Hash) bool) error {
	workers := s.device.backend.cfg.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	hashers := make([]hasher, workers)
	for i := range hashers {
		h, err := blake3.NewKeyed(key[:])
		if err != nil {
			return err
		}
		hashers[i] = hasher{h}
	}
	zero := hashers[0].sum(make([]byte, backend.Granule))
	var all []backend.BlockID
	for _, r := range s.State().Regions() {
		all = append(all, ids(r)...)
	}
	for len(all) > 0 {
		some := all[:min(len(all), 8*workers)]
		all = all[len(some):]
		hashes, err := s.hash(some, hashers, zero)
		if err != nil {
			return err
		}
		for i, id := range some {
			if !yield(id, hashes[i]) {
				return nil
			}
		}
	}
	return nil
}

// hash hashes blocks, the n-th with one of the hashers.
func (s *space) hash(some []backend.BlockID, hashers []hasher, zero backend.Hash) ([]backend.Hash, error) {
	out := make([]backend.Hash, len(some))
	errs := make([]error, len(hashers))
	var wg sync.WaitGroup
	for w := range hashers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := w; i < len(some) && errs[w] == nil; i += len(hashers) {
				var b []byte
				if b, errs[w] = s.block(some[i]); errs[w] != nil {
					return
				}
				out[i] = zero
				if !s.guard(func() {
					if touched(b) {
						out[i] = hashers[w].sum(b)
					}
				}) {
					errs[w] = errClosed
				}
			}
		}()
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
