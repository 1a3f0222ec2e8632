// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// Meter is told what jobs go through that this node leads. It is called from many
// goroutines.
type Meter interface {
	// Event is a line of a job's time line.
	Event(what string)
	// Phase is one of a checkpoint.
	Phase(name string, took time.Duration, failed bool)
	// Checkpoint is one that counts.
	Checkpoint(took time.Duration)
	// Stored is one that is in the store; it may be looked at: nobody waits but Close, and
	// then ctx is done.
	Stored(ctx context.Context, id store.ID)
}

// noMeter is the Meter of who has none.
type noMeter struct{}

func (noMeter) Event(string)                      {}
func (noMeter) Phase(string, time.Duration, bool) {}
func (noMeter) Checkpoint(time.Duration)          {}
func (noMeter) Stored(context.Context, store.ID)  {}

// reportStored tells of a checkpoint that is in the store.
func (c *Conductor) reportStored(id store.ID) {
	c.startBackground(func(ctx context.Context) { c.Meter.Stored(ctx, id) })
}

// Events are all that a Meter is told of.
func Events() []string {
	return []string{
		eventStarted, eventCheckpoint, eventFailed, eventFilesUnknown, eventStored, eventLost, eventReleased, eventEnded,
		eventRestored, eventHeld, eventRequeued, eventRestart,
	}
}

// Phases are those of a checkpoint.
func Phases() []string {
	var all []string
	for _, p := range phases {
		all = append(all, p.name)
	}
	return all
}
