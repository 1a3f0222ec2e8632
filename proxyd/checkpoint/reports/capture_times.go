// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
)

// CaptureTimes has the longest time, of the jobs that this node led, from Slurm's signal to the committed checkpoint.
// Slurm's KillWait limits that time. All methods may be called concurrently.
type CaptureTimes struct {
	path string
	log  *slog.Logger

	mu      sync.Mutex
	longest time.Duration
}

// LoadCaptureTimes returns the time that an earlier daemon saved in a file. Later times are saved there, too.
func LoadCaptureTimes(path string, log *slog.Logger) *CaptureTimes {
	t := &CaptureTimes{path: path, log: log}
	b, err := os.ReadFile(path)
	if err != nil {
		return t
	}
	if took, err := time.ParseDuration(strings.TrimSpace(string(b))); err == nil {
		t.longest = took
	}
	return t
}

// Note notes the duration of a capture after a signal of Slurm.
func (t *CaptureTimes) Note(took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if took <= t.longest {
		return
	}
	t.longest = took
	if err := os.WriteFile(t.path, []byte(took.Round(time.Millisecond).String()+"\n"), 0o600); err != nil {
		t.log.Warn("cannot save the longest capture time", "error", err)
	}
}

// Longest returns the longest time; 0 if there was none.
func (t *CaptureTimes) Longest() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.longest
}
