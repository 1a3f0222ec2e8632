// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"errors"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// freedRanges has the addresses that were freed and that work may still use. The space's mu guards freed.
type freedRanges struct {
	space   *space
	list    []freedRange
	retired []*mark // marks that are not asked for any more
}

// addFreeing notes that addresses may be given to other allocations, which wait until the channel is closed. The
// caller holds mu.
func (f *freedRanges) addFreeing(a backend.Addr, n uint64) chan struct{} {
	over := make(chan struct{})
	f.list = append(f.list, freedRange{base: a, size: n, over: over})
	return over
}

// waitsForRange lists the channels and marks that must be over before addresses can be used again. The caller holds mu.
func (f *freedRanges) waitsForRange(a backend.Addr, n uint64) (over []chan struct{}, marks []*mark) {
	return f.waitsInStream(a, n, nil)
}

// waitsInStream is waitsForRange for work of a stream, which comes behind the stream's own marks anyhow.
func (f *freedRanges) waitsInStream(a backend.Addr, n uint64, st *stream) (over []chan struct{}, marks []*mark) {
	f.list = slices.DeleteFunc(f.list, func(x freedRange) bool {
		overlaps := uint64(x.base) < uint64(a)+n && uint64(a) < uint64(x.base)+x.size
		switch {
		case x.mark != nil && (!overlaps || x.stream == st):
			return false // a question to the driver takes time
		case x.mark != nil:
			if !errors.Is(x.mark.queryMark(), backend.NotReady) {
				return true
			}
			marks = append(marks, x.mark)
			return false
		}
		select {
		case <-x.over:
			return true
		default:
		}
		if overlaps {
			over = append(over, x.over)
		}
		return false
	})
	return over, marks
}

// awaitFreed waits for the channels and marks that waitsForRange has listed.
func (f *freedRanges) awaitFreed(over []chan struct{}, marks []*mark) error {
	for _, m := range marks {
		if err := m.waitFor(f.space.ctx); err != nil {
			return err
		}
	}
	return awaitAll(f.space.ctx, over)
}

// marksOf returns the marks after which the work of a stream, or of a context's streams, no longer uses freed memory.
func (f *freedRanges) marksOf(which func(*stream) bool) []*mark {
	f.space.mu.Lock()
	defer f.space.mu.Unlock()
	if len(f.list) == 0 {
		return nil
	}
	var all []*mark
	for _, x := range f.list {
		if x.mark != nil && which(x.stream) {
			all = append(all, x.mark)
		}
	}
	return all
}

// finishMarks notes that work has come to all marks, so that the driver need not be asked for them.
func (f *freedRanges) finishMarks(all []*mark) {
	passed := map[*mark]bool{}
	for _, m := range all {
		m.finishMark()
		passed[m] = true
	}
	if len(passed) > 0 {
		f.space.mu.Lock()
		f.list = slices.DeleteFunc(f.list, func(x freedRange) bool { return passed[x.mark] })
		f.space.mu.Unlock()
	}
	f.space.ranges.releaseSurplus()
}

// addMark notes that work may use a piece until it has come to a mark of a stream. Earlier marks of the stream on
// these addresses are retired. The caller holds mu.
func (f *freedRanges) addMark(p piece, m *mark, st *stream) {
	at, size := p.Alloc.Base, p.Size()
	f.list = slices.DeleteFunc(f.list, func(x freedRange) bool {
		same := x.stream == st && x.mark != nil && x.base >= at && uint64(x.base-at)+x.size <= size
		if same {
			f.retired = append(f.retired, x.mark)
		}
		return same
	})
	f.list = append(f.list, freedRange{base: at, size: size, mark: m, stream: st})
}

// retireMark gives back the event of one retired mark that is passed. It is called for each new mark.
func (f *freedRanges) retireMark() {
	f.space.mu.Lock()
	defer f.space.mu.Unlock()
	if len(f.retired) > 0 && !errors.Is(f.retired[0].queryMark(), backend.NotReady) {
		f.retired = slices.Delete(f.retired, 0, 1)
	}
}
