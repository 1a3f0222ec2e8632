// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/splice"
)

// Bytes that were hashed once for a record are not hashed again until work may have written to them. All work that can
// write to a space's memory is an operation that the space's reclaimer knows, and says at its end where it may have
// written. An operation that does not say may have written anywhere: so work of a new kind makes a device slower, and
// not wrong. The known contents of a space are used, and added to, only while no operation but the launch itself uses
// the space's memory.
//
// Memory comes to addresses and leaves them without an operation, so the table of the space says that, too.

// writer is a kind of work that writes to memory.
type writer uint8

const (
	anyWriter writer = iota // work that does not say where it writes
	kernelWriter
	copyWriter
	fillWriter
	collectiveWriter
	wordWriter // of streams
	mappingWriter
	takingWriter // a launch that takes a result
	lastWriter
)

// writes is the memory to which work may have written. The zero value means all memory.
type writes struct {
	by    writer
	where []splice.Span // all memory that was written, unless by is anyWriter
}

// writesOf is the memory that a collective writes.
func writesOf(buffers []backend.Buffer) writes {
	w := writes{by: collectiveWriter}
	for _, b := range buffers {
		if b.Write {
			w.where = append(w.where, splice.Span{Base: uint64(b.Addr), Size: b.Size})
		}
	}
	return w
}

// readsOnly is the write set of an operation that writes no memory.
var readsOnly = writes{by: copyWriter}

// memoryVersion tells a state of a space's memory from a later state. While the version is the same, no other operation
// has begun in the space, and no memory has come or gone.
type memoryVersion struct{ begun, remapped uint64 }

// forgetWrites forgets the contents of memory that may have been written.
func (r *reclaimer) forgetWrites(w writes) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetLocked(w)
}

// forgetLocked is forgetWrites for a caller that holds mu.
func (r *reclaimer) forgetLocked(w writes) {
	switch {
	case r.hooks.isOverlooked(w.by):
	case w.by == anyWriter:
		r.contents.ForgetAll()
	default:
		r.contents.ForgetWritten(w.where)
	}
}

// noteRemapped notes that addresses have other bytes from now on, or are no longer mapped.
func (r *reclaimer) noteRemapped(a backend.Addr, n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remapped++
	r.forgetLocked(writes{mappingWriter, []splice.Span{{Base: uint64(a), Size: n}}})
}

// isUndisturbed tells whether op is alone, and the moment is still the same. The caller holds mu.
func (r *reclaimer) isUndisturbed(op *operation, at memoryVersion) bool {
	return r.isOnly(op) && at == memoryVersion{r.begun, r.remapped}
}

// findContent returns the known content of a piece of memory, or nil.
func (r *reclaimer) findContent(op *operation, at memoryVersion, x splice.Span) *splice.Content {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.isUndisturbed(op, at) {
		return nil
	}
	return r.contents.FindContent(x)
}

// noteContent notes the content that a piece of memory has had since a moment, and still has. It returns false if that
// is not certain.
func (r *reclaimer) noteContent(op *operation, at memoryVersion, x splice.Span, c *splice.Content) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.isUndisturbed(op, at) && !r.hooks.isOmitted(noteCheck) {
		return false
	}
	r.contents.NoteContent(x, c)
	return true
}

// accesses is the memory that a launch has accessed, and whether it made requests to the host.
type accesses struct {
	reads, writes []splice.Span // whole pieces of memory
	effects       bool
}

// knowsContents tells whether a content of the memory of any of these spaces is known.
func knowsContents(spaces []*space) bool {
	return slices.ContainsFunc(spaces, func(s *space) bool {
		s.reclaimer.mu.Lock()
		defer s.reclaimer.mu.Unlock()
		return !s.reclaimer.contents.IsEmpty()
	})
}

// runAndTrackWrites carries out a launch, and notes where it has written: in the memory of each space that its kernel could see at
// any time. A kernel that a fault has ended, or that may launch kernels, may have written anywhere.
func (q *queuedLaunch) runAndTrackWrites(op *operation) error {
	run := &q.spec
	if run.seen == nil && run.family == nil && knowsContents(op.uses) {
		run.seen = &accesses{}
	}
	err := q.runKernel(op)
	w := writes{}
	if err == nil && run.seen != nil && len(op.uses) > 0 {
		w = writes{kernelWriter, run.seen.writes}
		op.wrote = writes{by: kernelWriter} // all writes are reported here
	}
	for _, u := range op.usesWithSight(q.space) {
		u.reclaimer.forgetWrites(w)
	}
	return err
}

// leastContent is the least size of a piece of memory of which the hash is kept: to hash less takes no longer than to find it.
const leastContent = 4096

// sumSpan returns the hash of a piece of memory, and reads the memory if the hash is not known; false if the memory is gone.
func (a *spliceLaunch) sumSpan(x splice.Span) (splice.Sum, bool) {
	if x.Size < leastContent {
		return a.hashSpan(x)
	}
	r := &a.space.reclaimer
	c := r.findContent(a.operation, a.at, x)
	if c == nil {
		c = &splice.Content{}
	} else if sum, ok := a.knownSum(c); ok {
		return sum, true
	}
	sum, ok := a.hashSpan(x)
	if !ok {
		return sum, false
	}
	a.hooks.noteHashed(x)
	if r.noteContent(a.operation, a.at, x, c) {
		a.setSum(c, sum)
	}
	return sum, true
}

// knownSum returns the hash of a Content of the device's spaces, if it was made.
func (x *splicer) knownSum(c *splice.Content) (splice.Sum, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return c.KnownSum()
}

// setSum notes the hash of a Content of the device's spaces.
func (x *splicer) setSum(c *splice.Content, sum splice.Sum) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c.SetSum(sum)
}

// nameContents makes the Contents of the memory that a launch has written. Spaces that take the result have the same
// Contents.
func nameContents(written []splice.Span) (out []keptContent) {
	for _, x := range withoutRepeats(written) {
		out = append(out, keptContent{x, &splice.Content{}})
	}
	return out
}

// noteResult notes that a result was written to memory, which holds it if the moment is still the same.
func (r *reclaimer) noteResult(op *operation, at memoryVersion, result []keptContent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range result {
		r.contents.ForgetWritten([]splice.Span{x.at})
	}
	for _, x := range result {
		if x.at.Size >= leastContent && r.isUndisturbed(op, at) {
			r.contents.NoteContent(x.at, x.is)
		}
	}
}
