// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"strings"
	"sync"
	"time"
)

// watch remembers since when each lease has not changed, by this process's clock alone.
type watch struct {
	lapse time.Duration
	mu    sync.Mutex
	seen  map[string]sighting
}

type sighting struct {
	beat  string
	since time.Time
}

func newWatch(lapse time.Duration) *watch {
	return &watch{lapse: lapse, seen: make(map[string]sighting)}
}

// dead notes a lease's current beat, and tells whether the beat has been the same for too long.
func (w *watch) dead(lease, beat string, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.seen[lease]
	if !ok || last.beat != beat {
		w.seen[lease] = sighting{beat, now}
		return false
	}
	return now.Sub(last.since) >= w.lapse
}

// keep forgets the leases below prefix that are not present.
func (w *watch) keep(prefix string, present map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for lease := range w.seen {
		if strings.HasPrefix(lease, prefix) && !present[lease] {
			delete(w.seen, lease)
		}
	}
}
