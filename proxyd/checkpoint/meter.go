// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"time"

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
		eventStarted, eventCheckpoint, eventFailed, eventFilesUnknown, eventStored, eventLost, eventReleased, eventEnded,
		eventRestored, eventHeld, eventRequeued, eventRestart,
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
