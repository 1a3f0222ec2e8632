// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"crypto/rand"
	"sync"
	"sync/atomic"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/splice"
)

// A kernel that spaces of a device launch alike, with the same bytes in all memory that it reads, runs for one of them.
// The others take the bytes that it wrote. Package splice decides; this package moves the bytes.
//
// The interpreter tells which memory a kernel has accessed. Before a kernel runs, the bytes of the memory that it will
// access, by its parameters and by the accesses of earlier launches, are hashed. If the kernel accesses other memory as
// well, its result is not kept. Otherwise a launch of another space with the same hash would take the same steps: a
// kernel's steps depend on its code, its parameters, and the bytes that it reads. That holds only while no other work
// of the space runs, which could change these bytes meanwhile; and for kernels that make no requests to the host.
//
// Addresses are the same in spaces that begin at the same address. Spaces do so where each process uses a single
// device, or the same devices in the same order.

// splicer is a device's record of the kernels that its spaces launch.
type splicer struct {
	mu      sync.Mutex
	results *splice.Results
	hasher  *hasher
	counts  backend.SpliceCounts
	why     recentReasons // of launches that ran for their space
	since   uint64        // launches since a result was taken
	hooks   *spliceHooks  // of tests; nil: none
}

// worthCost is how many bytes are read to compare, at most, for each instruction of a warp that may be saved: see
// BenchmarkCompare.
const worthCost = 32

// keptShare is the part of a device's memory that kept results may take beside the spaces' own.
const keptShare = 16

// recentLaunches is the number of launches for which a device counts as spliced after a result was taken.
const recentLaunches = 4096

func newSplicer(memory uint64) (*splicer, error) {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	h, err := newHasher(&key)
	if err != nil {
		return nil, err
	}
	return &splicer{results: splice.NewResults(memory/keptShare, worthCost), hasher: h, why: makeReasons()}, nil
}

// Spliced implements backend.Splicer.
func (d *device) Spliced() backend.SpliceCounts {
	x := d.splicer
	if x == nil {
		return backend.SpliceCounts{}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	out := x.counts
	out.Kept = x.results.Held()
	out.Now = out.Once > 0 && x.since < recentLaunches
	out.Why = x.why.mostFrequent()
	return out
}

// countOwn counts a launch that runs for its space.
func (x *splicer) countOwn(why string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.counts.Own++
	x.since++
	x.why.countReason(why)
}

// spliceLaunch is a launch that may take a result, or leave one.
type spliceLaunch struct {
	*splicer
	space     *space
	operation *operation
	others    int // spaces that may launch the same
	at        memoryVersion
	holds     bool // other work of the space waits
	site      splice.Site
	plan      splice.Plan
	spans     []splice.Span // memory with bytes that are in the record
	record    splice.Record
	read      uint64 // bytes, for the record
	block     []byte // room for a block of common memory; nil until such a block is read
	seen      accesses
	issued    atomic.Uint64
}

// launchOrReuse carries out a launch, or takes the result of the same launch of another space. It is called once.
func (q *queuedLaunch) launchOrReuse(op *operation) error {
	spec := &q.spec
	d := q.space.at.Load()
	if d.splicer == nil {
		return q.runKernel(op)
	}
	a := d.beginSpliceLaunch(q, op)
	if a == nil {
		return q.runAndTrackWrites(op)
	}
	if a.plan.Compare {
		if taken, err := a.reuseResult(); taken || err != nil {
			return err
		}
	}
	all := spec.issued
	spec.issued, spec.seen = &a.issued, &a.seen
	switch {
	case a.plan.Learn:
		spec.parts = cutSpans(a.spans, a.plan.Cost)
	case a.plan.Compare:
		spec.parts = a.plan.Parts
	}
	err := q.runAndTrackWrites(op)
	all.Add(a.issued.Load())
	switch {
	case err != nil:
	case a.plan.Learn:
		a.recordAccesses()
	case a.plan.Compare:
		a.keepResult()
	default:
		a.measureCost()
	}
	return err
}

// beginSpliceLaunch returns nil for a launch that runs for its space.
func (d *device) beginSpliceLaunch(q *queuedLaunch, op *operation) *spliceLaunch {
	s, spec := q.space, &q.spec
	others, alike := d.countOthers(s)
	if others == 0 {
		return nil // the usual case: no other space could leave or take a result
	}
	a := &spliceLaunch{splicer: d.splicer, space: s, operation: op, others: alike}
	why := ""
	switch {
	case a.others == 0:
		why = whyAddresses
	case spec.cooperative:
		why = whyBlocks
	case spec.family != nil:
		why = whyLaunches
	case q.output.done != (backend.PartialKernel{}):
		why = whyPart
	case len(s.spacesInSight()) > 1 || q.function.module.managed.Size > 0: // code with addresses of a program's own memory
		why = whyMemory
	default:
		why = a.makeRecord(q.function, spec)
	}
	if why != "" {
		d.splicer.countOwn(why)
		return nil
	}
	return a
}

// countOthers counts the other spaces of the device, and of these the ones with the same addresses.
func (d *device) countOthers(s *space) (others, alike int) {
	b := d.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.spaces) == 1 {
		return 0, 0 // s itself, unless s is closed
	}
	for o := range b.spaces {
		if o == s || o.at.Load() != d {
			continue
		}
		if others++; o.cfg.Base == s.cfg.Base && o.size == s.size {
			alike++
		}
	}
	return others, alike
}

// makeRecord makes the record of a launch. It returns the reason if a launch has no record, or "".
func (a *spliceLaunch) makeRecord(f *function, spec *launch) string {
	at, alone := a.space.reclaimer.isAlone(a.operation)
	if a.at = at; !alone && !a.hooks.isOmitted(aloneCheck) {
		return whyOther
	}
	bases, ok := a.space.table.pointedSpans(spec.params)
	if !ok {
		return whyMemory
	}
	a.site = siteOf(f, spec, bases)
	a.mu.Lock()
	a.plan = a.results.Ask(splice.Rank(a.space.number), a.site, sizeOf(bases))
	a.mu.Unlock()
	a.spans = bases
	switch {
	case a.plan.Learn:
		return a.checkSpans()
	case !a.plan.Compare && a.plan.Cost == 0:
		return "" // the cost of the launch is measured
	case !a.plan.Compare:
		return whyNotCompared[a.plan.Why]
	case a.plan.Parts != nil:
		a.spans = a.plan.Parts
	default:
		a.spans = withoutRepeats(append(bases, a.plan.More...))
	}
	if why := a.checkSpans(); why != "" {
		return why
	}
	if !a.hashRecord(spec) {
		return whyFreed
	}
	return ""
}

// checkSpans returns why the spans' bytes cannot be read, or "".
func (a *spliceLaunch) checkSpans() string {
	for _, x := range a.spans {
		if !isOwnSpan(a.space, x) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.results.Forget(a.site)
			return whyMemory
		}
	}
	return ""
}

// blockOthers keeps other work of the space from beginning, so that it sees and changes none of the bytes that are
// copied. It returns false if other work has begun since the bytes were hashed. unblockOthers follows in any case.
func (a *spliceLaunch) blockOthers() bool {
	a.holds = a.space.reclaimer.blockOthers(a.operation, a.at)
	return a.holds || a.hooks.isOmitted(aloneCheck)
}

// unblockOthers undoes blockOthers.
func (a *spliceLaunch) unblockOthers() {
	if a.holds {
		a.space.reclaimer.unblockOthers()
	}
	a.holds = false
}

// beginCopying is called when the bytes of a result are about to be copied.
func (a *spliceLaunch) beginCopying() {
	if a.hooks.isOmitted(beginCheck) {
		a.unblockOthers()
	}
	a.hooks.noteCopying(a.space)
}

// reuseResult writes the bytes that another space's launch has written, and returns whether there was such a launch.
func (a *spliceLaunch) reuseResult() (bool, error) {
	if !a.blockOthers() {
		return false, nil // the hashed memory may have changed since
	}
	defer a.unblockOthers()
	a.mu.Lock()
	a.counts.Compared += a.read
	kept, ok := a.results.Take(splice.Rank(a.space.number), a.site, a.plan.Turn, a.record)
	a.mu.Unlock()
	if !ok {
		return false, nil
	}
	k := kept.(*keptLaunch)
	defer k.Drop()
	a.beginCopying()
	copied, err := a.writeResult(k)
	if err != nil {
		return false, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !k.taken {
		k.taken = true
		a.why.uncountReason(whyBytes) // the launch ran for all spaces
	}
	a.counts.Once++
	a.counts.Saved += k.issued
	a.counts.Taken += copied
	a.since = 0
	return true, nil
}

// keepResult keeps the bytes that a launch has written, if these depend on its record alone.
func (a *spliceLaunch) keepResult() {
	alone := a.blockOthers()
	defer a.unblockOthers()
	why := a.recordReads(alone)
	if why == whyBytes {
		a.beginCopying()
		at, _ := a.space.reclaimer.isAlone(a.operation)
		k, ok := readResult(a.space, &a.seen)
		if ok {
			a.space.reclaimer.noteResult(a.operation, at, k.contents)
			k.issued = a.issued.Load()
			a.mu.Lock()
			a.results.Keep(splice.Rank(a.space.number), a.record, a.others, k)
			a.mu.Unlock()
		} else {
			why = whyFreed
		}
		k.Drop()
	}
	a.countOwn(why)
}

// measureCost notes the cost of a launch that was not compared.
func (a *spliceLaunch) measureCost() {
	a.mu.Lock()
	a.results.Measure(a.site, a.issued.Load())
	a.mu.Unlock()
	a.countOwn(whyLearn)
}

// recordAccesses notes which parts of memory a launch has accessed.
func (a *spliceLaunch) recordAccesses() {
	parts, known := joinParts(&a.seen, a.spans)
	a.mu.Lock()
	a.results.LearnParts(a.site, a.issued.Load(), parts, known)
	a.mu.Unlock()
	a.countOwn(whyLearn)
}

// recordReads notes the memory that a launch has accessed. It returns whyBytes if the launch's result may be kept, or
// why not.
func (a *spliceLaunch) recordReads(alone bool) string {
	ok := true
	for _, x := range a.seen.reads { // written memory is among them
		ok = ok && isOwnSpan(a.space, x)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.seen.effects && !a.hooks.isOmitted(effectsCheck):
		a.results.Refuse(a.site)
		return whyEffects
	case !ok:
		a.results.Refuse(a.site)
		return whyMemory
	case !alone:
		return whyOther
	case !a.hooks.isOmitted(readsCheck) && !a.results.Learn(a.site, a.issued.Load(), a.spans, a.seen.reads):
		return whyLearn
	}
	return whyBytes
}
