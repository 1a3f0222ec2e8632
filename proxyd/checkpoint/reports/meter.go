// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// Meter receives events of the jobs that this node leads. The methods are called from many goroutines.
type Meter interface {
	// Event reports an event of a job's time line.
	Event(what string)
	// Phase reports a phase of a checkpoint.
	Phase(name string, took time.Duration, failed bool)
	// Checkpoint reports a committed checkpoint.
	Checkpoint(took time.Duration)
	// Stored reports a checkpoint that is in the store. The call may read the checkpoint: only Close
	// waits for the call, and ctx is done then.
	Stored(ctx context.Context, id store.ID)
}

// NoMeter is a Meter that ignores all values.
type NoMeter struct{}

// Event implements Meter.
func (NoMeter) Event(string) {}

// Phase implements Meter.
func (NoMeter) Phase(string, time.Duration, bool) {}

// Checkpoint implements Meter.
func (NoMeter) Checkpoint(time.Duration) {}

// Stored implements Meter.
func (NoMeter) Stored(context.Context, store.ID) {}

// Events returns all kinds of events that a Meter gets.
func Events() []string {
	return []string{
		records.EventStarted, records.EventCheckpoint, records.EventFailed, records.EventFilesUnknown, records.EventStored, records.EventLost, records.EventReleased, records.EventEnded,
		records.EventRestored, records.EventReset, records.EventReachable, records.EventHeld, records.EventRequeued, records.EventRestart, records.EventGPUs,
		records.EventCutShort, records.EventNodeLost, records.EventLaunchFailed,
	}
}
