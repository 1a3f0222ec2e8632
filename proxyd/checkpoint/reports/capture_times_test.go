// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"
)

// TestCaptureTimes: the longest time is kept, also by a later daemon.
func TestCaptureTimes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "capture")
	times := LoadCaptureTimes(path, slog.New(slog.DiscardHandler))
	if times.Longest() != 0 {
		t.Error("longest capture:", times.Longest())
	}
	for _, took := range []time.Duration{2 * time.Second, 20 * time.Second, time.Second} {
		times.Note(took)
	}
	again := LoadCaptureTimes(path, slog.New(slog.DiscardHandler))
	if times.Longest() != 20*time.Second || again.Longest() != 20*time.Second {
		t.Error("longest capture before and after a restart:", times.Longest(), again.Longest())
	}
}
