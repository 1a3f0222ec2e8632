// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"context"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// mark is a point in a stream's work, or the end of something else that is waited for.
type mark struct{ ch chan struct{} }

func newMark() *mark { return &mark{make(chan struct{})} }

func (m *mark) reachMark() { close(m.ch) }

func (m *mark) isReached() bool {
	select {
	case <-m.ch:
		return true
	default:
		return false
	}
}

// waitReached returns nil when the mark is reached, or ctx's error.
func (m *mark) waitReached(ctx context.Context) error {
	select {
	case <-m.ch:
		return nil
	default:
	}
	select {
	case <-m.ch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unreachedMarks leaves out what is reached, and what is nil.
func unreachedMarks(marks []*mark) []*mark {
	out := marks[:0]
	for _, m := range marks {
		if m != nil && !m.isReached() {
			out = append(out, m)
		}
	}
	return out
}

// job is a piece of work in a stream's queue.
type job struct {
	deps   []*mark
	run    func(*job) error // nil: nothing to do
	always bool             // run even if the context has a fault
	steps  bool             // each of its steps enters the gate itself: between them they wait for others
	uses   []*space         // with memory that the job touches while running
	drop   func()           // called instead when the space was closed, or nil
	// foreign is work of other code, which was given bytes and may keep them for long.
	foreign bool
	mark    *mark
	stream  *stream // nil for a node of a graph
	// begun and partial are of the stream's mu: see backend.Progress.
	begun   bool
	partial backend.Partial
}

// yard keeps bytes that are no longer mapped until the work that runs now and can reach them has ended: a kernel may still be
// using them.
type yard struct {
	mu      sync.Mutex
	away    bool // the bytes are elsewhere: no work may begin
	running map[*job]bool
	begun   uint64 // jobs, in all
	graves  []*grave
	held    chan struct{} // other jobs wait to begin until it is closed; nil: none has to wait
}

type grave struct {
	waits map[*job]bool
	free  func()
}

// beginJob enters a job, unless the bytes are elsewhere. It waits while holdOthers holds jobs up.
func (y *yard) beginJob(j *job) bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	for held := y.held; held != nil; held = y.held {
		y.mu.Unlock()
		<-held
		y.mu.Lock()
	}
	if y.away {
		return false
	}
	if y.running == nil {
		y.running = map[*job]bool{}
	}
	y.running[j] = true
	y.begun++
	return true
}

// isAlone tells whether no job but j uses the bytes, and how many jobs have begun. If that is the same later, no other job
// has used them meanwhile.
func (y *yard) isAlone(j *job) (begun uint64, alone bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.begun, len(y.running) == 1 && y.running[j]
}

// holdOthers lets no other job begin, and returns true, if j is alone and no other job has begun since isAlone returned
// begun. The caller calls letOthersBegin soon, and waits for no job before.
func (y *yard) holdOthers(j *job, begun uint64) bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.begun != begun || len(y.running) != 1 || !y.running[j] {
		return false
	}
	y.held = make(chan struct{})
	return true
}

// letOthersBegin undoes holdOthers.
func (y *yard) letOthersBegin() {
	y.mu.Lock()
	defer y.mu.Unlock()
	close(y.held)
	y.held = nil
}

// shutIfIdle lets no work begin, and returns true, unless work is under way that is not foreign.
func (y *yard) shutIfIdle() bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	for j := range y.running {
		if !j.foreign {
			return false
		}
	}
	y.away = true
	return true
}

func (y *yard) isShut() bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.away
}

// openAgain undoes shutIfIdle.
func (y *yard) openAgain() {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.away = false
}

func (y *yard) endJob(j *job) {
	var free []func()
	y.mu.Lock()
	delete(y.running, j)
	left := y.graves[:0]
	for _, g := range y.graves {
		delete(g.waits, j)
		if len(g.waits) == 0 {
			free = append(free, g.free)
		} else {
			left = append(left, g)
		}
	}
	clear(y.graves[len(left):])
	y.graves = left
	y.mu.Unlock()
	for _, f := range free {
		f()
	}
}

// freeWhenUnused calls free once no work uses what was unmapped before this call; whether that includes foreign work,
// see job.foreign, the caller says.
func (y *yard) freeWhenUnused(free func(), foreign bool) {
	y.mu.Lock()
	g := &grave{waits: make(map[*job]bool, len(y.running)), free: free}
	for j := range y.running {
		if foreign || !j.foreign {
			g.waits[j] = true
		}
	}
	wait := len(g.waits) > 0
	if wait {
		y.graves = append(y.graves, g)
	}
	y.mu.Unlock()
	if !wait {
		free()
	}
}
