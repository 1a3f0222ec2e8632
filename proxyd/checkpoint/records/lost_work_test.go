// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"testing"
	"time"
)

func TestLostWork(t *testing.T) {
	start := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	minute := func(n int) time.Time { return start.Add(time.Duration(n) * time.Minute) }
	event := func(n int, what string, checkpoint uint32) Event {
		return Event{At: minute(n), What: what, Checkpoint: checkpoint}
	}
	started, made := event(0, EventStarted, 0), event(30, EventCheckpoint, 1)
	for _, tt := range []struct {
		name   string
		events []Event
		number uint32
		want   string
	}{
		{"no checkpoint", []Event{started}, 0, "; at most 1h0m0s of work are lost"},
		{"a periodic one", []Event{started, made}, 1, "; at most 30m0s of work are lost"},
		{"captured for a requeue", []Event{started, made, event(30, EventReleased, 0)}, 1, ""},
		{"an older one is restored", []Event{started, made, event(40, EventCheckpoint, 2)}, 1, "; at most 30m0s of work are lost"},
		{"a restored run is lost", []Event{started, made, event(30, EventReleased, 0),
			event(41, EventStarted, 1), event(42, EventRestored, 1)}, 1, "; at most 18m0s of work are lost"},
		{"a device server died", []Event{started, made, event(45, EventRequeued, 0)}, 1, "; 15m0s of work are lost"},
		{"the second run began anew and is lost", []Event{started, event(20, EventEnded, 0), event(50, EventStarted, 0)}, 0, "; at most 10m0s of work are lost"},
		{"nothing is known", nil, 3, ""},
	} {
		if got := DescribeLostWork(LostWork(tt.events, tt.number, minute(60))); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestLeftWith: a job has not run since a checkpoint only after leaving its nodes with that checkpoint, and the run that begins
// is the first since.
func TestLeftWith(t *testing.T) {
	event := func(what string, checkpoint uint32) Event { return Event{What: what, Checkpoint: checkpoint} }
	started, made, left, next := event(EventStarted, 0), event(EventCheckpoint, 1), event(EventReleased, 0), event(EventStarted, 1)
	for _, tt := range []struct {
		name   string
		events []Event
		want   bool
	}{
		{"left, and starts", []Event{started, made, left, next}, true},
		{"left, and is stored", []Event{started, made, left, event(EventStored, 1), next}, true},
		{"ran on", []Event{started, made, next}, false},
		{"left with another one", []Event{started, made, event(EventCheckpoint, 2), left, next}, false},
		{"a restored run is lost", []Event{started, made, left, next, event(EventRestored, 1), next}, false},
		{"a run before was cut short", []Event{started, made, left, next, event(EventCutShort, 0), next}, false},
		{"nothing is known", nil, false},
	} {
		if got := LeftWith(tt.events, 1); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestLastFailure: why the last run of a job has no checkpoint, if one was tried.
func TestLastFailure(t *testing.T) {
	event := func(what, text string) Event { return Event{What: what, Text: text} }
	for name, tt := range map[string]struct {
		events []Event
		want   string
	}{
		"nothing is known":      {},
		"none was tried":        {[]Event{event(EventStarted, ""), event(EventEnded, "")}, ""},
		"the newest of two":     {[]Event{event(EventStarted, ""), event(EventFailed, "first"), event(EventFailed, "second"), event(EventEnded, "")}, "second"},
		"a later one was made":  {[]Event{event(EventStarted, ""), event(EventFailed, "first"), event(EventCheckpoint, "2")}, ""},
		"of a run before that":  {[]Event{event(EventStarted, ""), event(EventFailed, "first"), event(EventStarted, "")}, ""},
		"only the end is known": {[]Event{event(EventFailed, "first")}, "first"},
	} {
		if got := LastFailure(tt.events); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
