// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"container/heap"
	"slices"
)

// kind is what happens.
type kind uint8

const (
	submitted kind = iota
	dumped         // its checkpoint is made: it leaves its nodes
	restored       // it computes again
	finished
	tick // policies are asked
	look // it is time for backfill
)

// event is something that will happen, unless the job's turn has changed by then.
type event struct {
	at   int64 // milliseconds
	seq  int64 // orders what happens at one moment
	kind kind
	job  *job
	turn int
}

// events is what will happen, the next first.
type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(e[i].at, e[j].at), cmp.Compare(e[i].seq, e[j].seq)) < 0
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) } //nolint:errcheck // nothing else is pushed

// Pop takes the last, for package heap.
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// at has something happen to a job at its present turn.
func (r *run) at(when int64, k kind, j *job) {
	r.seq++
	turn := 0
	if j != nil {
		turn = j.turn
	}
	heap.Push(&r.events, event{when, r.seq, k, j, turn})
}

// before orders the queue: by priority, then by age.
func before(a, b *job) int {
	return cmp.Or(cmp.Compare(b.tier, a.tier), cmp.Compare(a.Submit, b.Submit), cmp.Compare(a.ID, b.ID))
}

func (r *run) enqueue(j *job) {
	i, _ := slices.BinarySearchFunc(r.queue, j, before)
	r.queue = slices.Insert(r.queue, i, j)
}

func (r *run) dequeue(j *job) {
	if i, ok := slices.BinarySearchFunc(r.queue, j, before); ok {
		r.queue = slices.Delete(r.queue, i, i+1)
	}
}

// How far backfill looks, and how often, as Slurm does unless told otherwise.
const (
	depth         = 500
	backfillEvery = 30_000 // milliseconds
)

// schedule starts what has room, in order, up to the first that has none; then, now and then,
// smaller jobs behind it that do not make it later.
func (r *run) schedule() {
	i := 0
	for i < len(r.queue) {
		j := r.queue[i]
		if j.claim != nil { // its place comes to it
			i++
			continue
		}
		if shares := r.pool.take(j.Nodes, j.gpus/j.Nodes); shares != nil {
			r.dequeue(j)
			r.start(j, shares)
			continue
		}
		break
	}
	switch {
	case i == len(r.queue):
	case r.now < r.nextBackfill:
		if !r.looks {
			r.looks = true
			r.at(r.nextBackfill, look, nil)
		}
	default:
		r.nextBackfill = r.now + backfillEvery
		r.backfill(r.queue[i], slices.Clone(r.queue[i+1:min(len(r.queue), i+1+depth)]))
	}
}

// backfill starts jobs that end before the first one can start, or leave it enough GPUs then.
func (r *run) backfill(first *job, rest []*job) {
	ends := make([]*job, 0, len(r.running))
	for _, j := range r.running {
		ends = append(ends, j)
	}
	slices.SortFunc(ends, func(a, b *job) int {
		return cmp.Or(cmp.Compare(a.expected(r.now), b.expected(r.now)), cmp.Compare(a.ID, b.ID))
	})
	free, shadow := r.pool.total, r.now
	for _, j := range ends {
		if free >= first.gpus {
			break
		}
		free += j.held()
		shadow = j.expected(r.now)
	}
	spare := free - first.gpus
	for _, j := range rest {
		if j.claim != nil {
			continue
		}
		soon := r.now+j.planned() <= shadow
		if !soon && j.gpus > spare {
			continue
		}
		if shares := r.pool.take(j.Nodes, j.gpus/j.Nodes); shares != nil {
			if !soon {
				spare -= j.gpus
			}
			r.dequeue(j)
			r.start(j, shares)
		}
	}
}
