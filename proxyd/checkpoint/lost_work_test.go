// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
)

func TestLostWork(t *testing.T) {
	start := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	minute := func(n int) time.Time { return start.Add(time.Duration(n) * time.Minute) }
	event := func(n int, what, text string) records.Event {
		return records.Event{At: minute(n), What: what, Text: text}
	}
	started, made := event(0, records.EventStarted, ""), event(30, records.EventCheckpoint, "1 (periodic), in 2s")
	for _, tt := range []struct {
		name   string
		events []records.Event
		number uint32
		want   string
	}{
		{"no checkpoint", []records.Event{started}, 0, "; 1h0m0s of work are lost"},
		{"a periodic one", []records.Event{started, made}, 1, "; 30m0s of work are lost"},
		{"captured for a requeue", []records.Event{started, made, event(30, records.EventReleased, "requeue")}, 1, ""},
		{"an older one is restored", []records.Event{started, made, event(40, records.EventCheckpoint, "2 (periodic), in 2s")}, 1, "; 30m0s of work are lost"},
		{"a restored run is lost", []records.Event{started, made, event(30, records.EventReleased, "requeue"),
			event(41, records.EventStarted, "run 2"), event(42, records.EventRestored, "from checkpoint 1")}, 1, "; 18m0s of work are lost"},
		{"a device server died", []records.Event{started, made, event(45, records.EventRequeued, "")}, 1, "; 15m0s of work are lost"},
		{"the second run began anew and is lost", []records.Event{started, event(20, records.EventEnded, ""), event(50, records.EventStarted, "run 2, anew")}, 0, "; 10m0s of work are lost"},
		{"nothing is known", nil, 3, ""},
	} {
		if got := describeLostWork(lostWork(tt.events, tt.number, minute(60))); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
