// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"strings"
	"sync"
	"time"
)

// leaseWatch remembers since when each lease has not changed, by this process's clock alone.
type leaseWatch struct {
	lapse time.Duration
	mu    sync.Mutex
	seen  map[string]leaseSighting
}

type leaseSighting struct {
	beat  string
	since time.Time
}

func newLeaseWatch(lapse time.Duration) *leaseWatch {
	return &leaseWatch{lapse: lapse, seen: make(map[string]leaseSighting)}
}

// isDead notes a lease's current beat, and tells whether the beat has been the same for too long.
func (w *leaseWatch) isDead(lease, beat string, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.seen[lease]
	if !ok || last.beat != beat {
		w.seen[lease] = leaseSighting{beat, now}
		return false
	}
	return now.Sub(last.since) >= w.lapse
}

// forgetAbsent forgets the leases below prefix that are not present.
func (w *leaseWatch) forgetAbsent(prefix string, present map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for lease := range w.seen {
		if strings.HasPrefix(lease, prefix) && !present[lease] {
			delete(w.seen, lease)
		}
	}
}
