// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package fraction

import (
	"cmp"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// Event is the start of a part of a job's life; the part lasts until the job's next event.
type Event struct {
	Job     sdk.JobID
	At      time.Time // cut to whole milliseconds
	Run     int       // how often the job was requeued before: orders events of the same moment
	State   State
	GPUs    int // that the job holds
	Request int // that its user asked for
	Account string
}

// State is the state of a job in a part of its life.
type State uint8

// The states. Events of a run at the same moment are in this order.
const (
	Excused State = iota // the job could not run even on an empty cluster: held by a person, a dependency, a time
	Waiting              // the job could run, and has no GPUs; also while preemptd holds the job
	Running              // the job computes
	Stopped              // the job holds GPUs and stands still: a dump, a restore, suspended
	Ended
)

// isBefore orders the events of a job.
func (e *Event) isBefore(o *Event) int {
	return cmp.Or(
		cmp.Compare(e.At.UnixMilli(), o.At.UnixMilli()),
		cmp.Compare(e.Run, o.Run),
		cmp.Compare(e.State, o.State),
		cmp.Compare(e.GPUs, o.GPUs),
		cmp.Compare(e.Request, o.Request),
		cmp.Compare(e.Account, o.Account),
	)
}

// askedPerMilli and deliveredPerMilli are the GPU time that the event adds for each millisecond.
func (e *Event) askedPerMilli() int64 {
	if e.State == Excused || e.State == Ended {
		return 0
	}
	return int64(e.Request)
}

func (e *Event) deliveredPerMilli() int64 {
	if e.State != Running {
		return 0
	}
	return int64(e.GPUs)
}
