// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"os"
	"path/filepath"
	"strings"
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
		records.EventRestored, records.EventReset, records.EventHeld, records.EventRequeued, records.EventRestart,
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

func (c *Conductor) capturePath() string { return filepath.Join(c.Lib, "capture") }

// noteCaptureTime notes the duration of a capture after a signal of Slurm.
func (c *Conductor) noteCaptureTime(took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if took <= c.longestCapture {
		return
	}
	c.longestCapture = took
	if err := os.WriteFile(c.capturePath(), []byte(took.Round(time.Millisecond).String()+"\n"), 0o600); err != nil {
		c.Log.Warn("save the longest capture time", "error", err)
	}
}

// LongestCapture returns the longest time, of the jobs that this node led, from Slurm's signal to
// the committed checkpoint; 0 if there was none.
func (c *Conductor) LongestCapture() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.longestCapture
}

// loadLongestCapture reads the value that an earlier daemon saved.
func (c *Conductor) loadLongestCapture() {
	b, err := os.ReadFile(c.capturePath())
	if err != nil {
		return
	}
	if took, err := time.ParseDuration(strings.TrimSpace(string(b))); err == nil {
		c.longestCapture = took
	}
}
