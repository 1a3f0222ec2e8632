// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"strings"
	"sync"
	"time"
)

// claimWatch remembers since when each claim has not changed, by this process's clock alone.
type claimWatch struct {
	lapse time.Duration
	mu    sync.Mutex
	seen  map[string]claimSighting
}

type claimSighting struct {
	beat  string
	since time.Time
}

func newClaimWatch(lapse time.Duration) *claimWatch {
	return &claimWatch{lapse: lapse, seen: make(map[string]claimSighting)}
}

// isDead notes a claim's current beat, and tells whether the beat has been the same for too long.
func (w *claimWatch) isDead(claim, beat string, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.seen[claim]
	if !ok || last.beat != beat {
		w.seen[claim] = claimSighting{beat, now}
		return false
	}
	return now.Sub(last.since) >= w.lapse
}

// forgetAbsent forgets the claims below prefix that are not present.
func (w *claimWatch) forgetAbsent(prefix string, present map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for claim := range w.seen {
		if strings.HasPrefix(claim, prefix) && !present[claim] {
			delete(w.seen, claim)
		}
	}
}
