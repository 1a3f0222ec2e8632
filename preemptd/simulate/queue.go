// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// kind is the kind of an event.
type kind uint8

const (
	dumped   kind = iota // its checkpoint is made: the job leaves its nodes
	restored             // the job computes again
	resized              // likewise, on its nodes with another number of GPUs
	finished
	tick // policies are asked
	look // time for backfill
)

// event is a future event of a job; it is void if the job's turn has changed by then.
type event struct {
	at   int64 // milliseconds
	seq  int64 // orders events of the same moment
	kind kind
	job  *job
	turn int
}

// isBefore orders events.
func (e *event) isBefore(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// scheduleEvent plans an event of a job at its present turn.
func (r *run) scheduleEvent(when int64, k kind, j *job) {
	r.seq++
	turn := 0
	if j != nil {
		turn = j.turn
	}
	r.events = heapPush(r.events, event{when, r.seq, k, j, turn})
}

// comesBefore orders the queue: by priority, then by age.
func comesBefore(a, b *job) int {
	return cmp.Or(cmp.Compare(b.tier, a.tier), cmp.Compare(a.Submit, b.Submit), cmp.Compare(a.ID, b.ID))
}

func (r *run) enqueueJob(j *job) {
	i, _ := slices.BinarySearchFunc(r.queue, j, comesBefore)
	r.queue = slices.Insert(r.queue, i, j)
	r.course.now.waiting[j.tier]++
}

func (r *run) dequeueJob(j *job) {
	if i, ok := slices.BinarySearchFunc(r.queue, j, comesBefore); ok {
		r.queue = slices.Delete(r.queue, i, i+1)
		r.course.now.waiting[j.tier]--
	}
}

// How far backfill looks, and how often, as Slurm does unless told otherwise.
const (
	depth         = 500
	backfillEvery = 30_000 // milliseconds
)

// scheduleJobs starts the jobs that have room, in order, up to the first job without room; then,
// now and then, smaller jobs behind that job that do not make its start later.
func (r *run) scheduleJobs() {
	i := 0
	for i < len(r.queue) {
		j := r.queue[i]
		if j.claim != nil { // its place comes to the job
			i++
			continue
		}
		if shares := r.pool.allocateNodes(j.Nodes, j.gpus/j.Nodes); shares != nil {
			r.dequeueJob(j)
			r.startJob(j, shares)
			continue
		}
		break
	}
	switch {
	case i == len(r.queue):
	case r.now < r.nextBackfill:
		if !r.looks {
			r.looks = true
			r.scheduleEvent(r.nextBackfill, look, nil)
		}
	default:
		r.nextBackfill = r.now + backfillEvery
		r.backfillJobs(r.queue[i], slices.Clone(r.queue[i+1:min(len(r.queue), i+1+depth)]))
	}
}

// ends is when Slurm believes that a job ends, and how many GPUs are free then.
type ends struct {
	at   int64
	id   sdk.JobID
	gpus int
}

func (e *ends) isBefore(o *ends) bool { return e.at < o.at || e.at == o.at && e.id < o.id }

// shadowTime returns when a job can start at the latest, and how many GPUs more than the job needs
// are free then. Few of the many running jobs must end for that: they are taken off a heap.
func (r *run) shadowTime(first *job) (at int64, spare int) {
	r.ends = r.ends[:0]
	for _, j := range r.running {
		r.ends = append(r.ends, ends{max(r.now+1, j.until), j.ID, j.holding})
	}
	h := r.ends
	for i := len(h)/2 - 1; i >= 0; i-- {
		siftDown(h, i)
	}
	free, at := r.pool.total, r.now
	for free < first.gpus && len(h) > 0 {
		var next ends
		next, h = heapPop(h)
		free, at = free+next.gpus, next.at
	}
	return at, free - first.gpus
}

// backfillJobs starts jobs that end before first can start, or that leave first enough GPUs then.
func (r *run) backfillJobs(first *job, rest []*job) {
	shadow, spare := r.shadowTime(first)
	for _, j := range rest {
		if j.claim != nil {
			continue
		}
		soon := r.now+j.plannedTime() <= shadow
		if !soon && j.gpus > spare {
			continue
		}
		if shares := r.pool.allocateNodes(j.Nodes, j.gpus/j.Nodes); shares != nil {
			if !soon {
				spare -= j.gpus
			}
			r.dequeueJob(j)
			r.startJob(j, shares)
		}
	}
}
