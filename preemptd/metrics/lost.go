// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// reason is why GPU time of a job was lost. The text is the reason's name for people.
type reason string

const (
	dumped   reason = "dump"    // the job stood still while a checkpoint was made, as measured
	restored reason = "restore" // until its program went on, as measured
	stopped  reason = "stopped" // the job was suspended, or leaving its nodes
	redone   reason = "redone"  // the job ran, and resumed from an earlier checkpoint, or began anew
)

var reasons = []reason{dumped, restored, stopped, redone}

const (
	// settleTime is how long after a requeue the checkpoints of a job are known for sure:
	// they are listed less often than jobs.
	settleTime = time.Minute
	// longestGap is the longest time between two looks that is counted.
	longestGap = 5 * time.Minute
)

// losses counts GPU time that was lost between a snapshot and the next. It has no clock.
type losses struct {
	at   time.Time // of the last snapshot; zero: there was no snapshot
	jobs map[sdk.JobID]jobMemory
}

// jobMemory is the memory of a job from a look to the next.
type jobMemory struct {
	restarts   int
	state      sdk.JobState
	gpus       int       // that the job held
	began, ran time.Time // its last run, as far as the job was seen running
	checkpoint time.Time
	ended      []run // that are not settled
}

// holdsGPUs reports whether the job held its GPUs.
func (m *jobMemory) holdsGPUs() bool {
	return m.state == sdk.Running || m.state == sdk.Suspended || m.state == sdk.Leaving
}

// run is a run that ended in a requeue.
type run struct {
	began, ended time.Time
	gpus         int
}

// tally takes GPU seconds of a job.
type tally struct {
	lost func(*sdk.Job, reason, float64)
	held func(*sdk.Job, float64)
}

// countLosses tells of the GPU time that was held, and that was lost, since the last look.
func (l *losses) countLosses(s *sdk.Snapshot, to tally) {
	since := s.Time.Sub(l.at)
	if l.at.IsZero() || since > longestGap {
		since = 0
	}
	now := make(map[sdk.JobID]jobMemory, len(s.Jobs))
	for i := range s.Jobs {
		j := &s.Jobs[i]
		was, met := l.jobs[j.ID]
		tell := func(r reason, gpus int, d time.Duration) {
			if gpuSeconds := float64(gpus) * d.Seconds(); met && gpuSeconds > 0 {
				to.lost(j, r, gpuSeconds)
			}
		}
		is := rememberJob(j, was, s.Time)
		if gpuSeconds := float64(was.gpus) * since.Seconds(); met && was.holdsGPUs() && gpuSeconds > 0 {
			to.held(j, gpuSeconds)
		}
		if was.state == sdk.Suspended || was.state == sdk.Leaving {
			tell(stopped, was.gpus, since)
		}
		if made := j.Checkpoint.At; !made.Equal(was.checkpoint) && !made.IsZero() {
			tell(dumped, max(was.gpus, is.gpus), j.Checkpoint.Dump)
		}
		if j.State == sdk.Running && j.Restarts > 0 && !is.began.Equal(was.began) && !j.Checkpoint.At.IsZero() {
			tell(restored, is.gpus, j.Checkpoint.Restore)
		}
		for len(is.ended) > 0 && s.Time.Sub(is.ended[0].ended) >= settleTime {
			r := is.ended[0]
			from := r.began
			// The dump of that checkpoint is counted already, as dumped.
			if kept := j.Checkpoint.At.Add(j.Checkpoint.Dump); !j.Checkpoint.At.IsZero() && kept.After(from) {
				from = kept
			}
			tell(redone, r.gpus, r.ended.Sub(from))
			is.ended = is.ended[1:]
		}
		now[j.ID] = is
	}
	l.at, l.jobs = s.Time, now
}

// rememberJob returns the memory of a job after a look: was, brought up to date.
func rememberJob(j *sdk.Job, was jobMemory, now time.Time) jobMemory {
	is := was
	if j.Restarts > was.restarts && !was.ran.IsZero() {
		is.ended = append(is.ended[:len(is.ended):len(is.ended)], run{was.began, was.ran, was.gpus})
		is.began, is.ran = time.Time{}, time.Time{}
	}
	is.restarts, is.state, is.checkpoint = j.Restarts, j.State, j.Checkpoint.At
	if j.Holds() {
		is.gpus = 0
		for _, share := range j.Shares {
			is.gpus += share.GPUs.Count()
		}
	}
	if j.State == sdk.Running {
		is.began, is.ran = j.Started, now
	}
	return is
}
