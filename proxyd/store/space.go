// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Reservation is reserved space in the store. A Reservation is a claim and expires with its owner.
type Reservation struct {
	claim *claim
	mu    sync.Mutex
	left  uint64
}

// Reserve reserves n bytes of the space that is free and not reserved by other claims. Without
// enough space the error is a *SpaceError. A reservation is visible before it is checked. So if two
// reservations fit only one at a time, both are never granted; in that case both wait for a random
// time and try again.
func (s *Store) Reserve(ctx context.Context, what string, n uint64) (*Reservation, error) {
	const tries = 4
	for try := 1; ; try++ {
		r, err := s.reserveOnce(ctx, what, n)
		var short *SpaceError
		if err == nil || try == tries || !errors.As(err, &short) || short.Free < n {
			return r, err
		}
		pause := time.NewTimer(rand.N(time.Duration(try) * 50 * time.Millisecond))
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil, fmt.Errorf("reserve %s: %w", formatSize(n), context.Cause(ctx))
		case <-pause.C:
		}
	}
}

func (s *Store) reserveOnce(ctx context.Context, what string, n uint64) (*Reservation, error) {
	r := &Reservation{left: n}
	var err error
	if r.claim, err = s.acquireClaim(ctx, spaceClaim, what, n, func(error) {}); err != nil {
		return nil, fmt.Errorf("reserve %s: %w", formatSize(n), err)
	}
	if err := s.checkSpace(ctx, r.claim.name, n); err != nil {
		return nil, fmt.Errorf("reserve %s: %w", formatSize(n), errors.Join(err, r.Release(ctx)))
	}
	return r, nil
}

// checkSpace returns an error if n is more than the space that is free and not reserved by claims other than own.
func (s *Store) checkSpace(ctx context.Context, own claimName, n uint64) error {
	claims, err := s.liveClaims(ctx)
	if err != nil {
		return err
	}
	free, err := s.be.Free(ctx)
	if err != nil {
		return err
	}
	e := &SpaceError{Free: free, Need: n}
	for _, l := range claims {
		if l.name.kind == spaceClaim && l.name != own {
			e.Reserved += min(l.beat.Bytes, ^uint64(0)-e.Reserved)
		}
	}
	if e.Reserved > free || free-e.Reserved < n {
		return e
	}
	return nil
}

// markUsed records that n of the reserved bytes are used; other processes learn it from the next beat. r may be nil.
func (r *Reservation) markUsed(n uint64) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left -= min(r.left, n)
	r.claim.setBytes(r.left)
}

// Release gives up the space that is still reserved, even if ctx is done. Release may be called twice.
func (r *Reservation) Release(ctx context.Context) error { return r.claim.releaseClaim(ctx) }
