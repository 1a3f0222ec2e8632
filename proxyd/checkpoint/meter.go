// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// Meter receives events of the jobs that this node leads. It is called from many goroutines.
type Meter interface {
	// Event reports an event of a job's time line.
	Event(what string)
	// Phase reports a phase of a checkpoint.
	Phase(name string, took time.Duration, failed bool)
	// Checkpoint reports a committed checkpoint.
	Checkpoint(took time.Duration)
	// Stored reports a checkpoint that is in the store. It may read the checkpoint: only Close
	// waits for it, and ctx is done then.
	Stored(ctx context.Context, id store.ID)
}

// noMeter is a Meter that does nothing.
type noMeter struct{}

func (noMeter) Event(string)                      {}
func (noMeter) Phase(string, time.Duration, bool) {}
func (noMeter) Checkpoint(time.Duration)          {}
func (noMeter) Stored(context.Context, store.ID)  {}

// reportStored reports a checkpoint in the store to the Meter, in the background.
func (c *Conductor) reportStored(id store.ID) {
	c.startBackground(func(ctx context.Context) { c.Meter.Stored(ctx, id) })
}

// Events returns all kinds of events that a Meter gets.
func Events() []string {
	return []string{
		records.EventStarted, records.EventCheckpoint, records.EventFailed, records.EventFilesUnknown, records.EventStored, records.EventLost, records.EventReleased, records.EventEnded,
		records.EventRestored, records.EventReset, records.EventHeld, records.EventRequeued, records.EventRestart, records.EventGPUs,
	}
}

// Phases returns the names of all phases.
func Phases() []string {
	var all []string
	for _, p := range phases {
		all = append(all, p.name)
	}
	return all
}

// KillWait limits the time to capture a job that Slurm ends. The longest such time of this node
// is kept, for singctl doctor.

// captureTimes has the longest time of a capture. All methods may be called concurrently.
type captureTimes struct {
	c       *Conductor
	mu      sync.Mutex
	longest time.Duration
}

// noteCapture notes the duration of a capture after a signal of Slurm.
func (t *captureTimes) noteCapture(took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if took <= t.longest {
		return
	}
	t.longest = took
	if err := os.WriteFile(t.c.folders().capturePath(), []byte(took.Round(time.Millisecond).String()+"\n"), 0o600); err != nil {
		t.c.Log.Warn("save the longest capture time", "error", err)
	}
}

// LongestCapture returns the longest time, of the jobs that this node led, from Slurm's signal to
// the committed checkpoint; 0 if there was none.
func (c *Conductor) LongestCapture() time.Duration {
	c.captures.mu.Lock()
	defer c.captures.mu.Unlock()
	return c.captures.longest
}

// loadLongest reads the value that an earlier daemon saved.
func (t *captureTimes) loadLongest() {
	b, err := os.ReadFile(t.c.folders().capturePath())
	if err != nil {
		return
	}
	if took, err := time.ParseDuration(strings.TrimSpace(string(b))); err == nil {
		t.longest = took
	}
}
