// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"testing"
	"time"
)

// world is a store with a single chunk, two writers that want the chunk, two collectors that may take each other for
// dead, and a deleter. The test walks every interleaving of their steps. The oracle is simple: while a manifest exists,
// the chunk must exist.
type world struct {
	chunk   bool // in chunks/
	sweep   [2]int8
	trash   [2]int8 // by collector: generation of its burial, or gone
	current int8
	writers [2]writerState
	gcs     [2]gcState
}

const absent = int8(-1)

// Places of a collector's sweep folder: not made, empty, with the chunk, removed.
const (
	noSweep int8 = iota
	emptySweep
	fullSweep
	removedSweep
)

type writerState struct {
	step     int8
	since    int8
	manifest bool // committed, and not purged
	claim    bool
}

// gcState is a single collector's progress and knowledge. The fields are those that the real collector holds in memory.
type gcState struct {
	step   int8
	used   bool    // mark found the chunk in a manifest
	listed [2]bool // trash that was listed
	live   [2]bool // claims that were listed
	g      int8    // the generation that was read
}

// moves returns every state that one step of a single actor leads to.
func (w world) moves() []world {
	var next []world
	for i := range w.writers {
		next = append(next, w.writer(i)...)
	}
	for i := range w.gcs {
		next = append(next, w.collect(i)...)
	}
	return next
}

// writer: read the generation; make the claim; look for the chunk or put it; commit and release. Between claim and
// commit the writer can be taken for dead at any moment, which fences the writer. Its checkpoint can be deleted
// afterwards; without readers its manifest is then purged at once.
func (w world) writer(i int) []world {
	s := &w.writers[i]
	switch s.step {
	case 0:
		s.since = w.current
	case 1:
		s.claim = true
	case 2:
		w.chunk = true // found, or put again: the same for the store
	case 3:
		fenced := w
		fenced.writers[i] = writerState{step: 9}
		s.manifest = s.claim
		s.step++
		return []world{w, fenced}
	case 4:
		s.claim = false
	case 5:
		if i == 1 { // the two are alike; deleting one of them is enough
			return nil
		}
		s.manifest = false
	default:
		return nil
	}
	s.step++
	next := []world{w}
	if s.claim && s.step < 4 { // taken for dead
		dead := w
		dead.writers[i] = writerState{step: 9}
		next = append(next, dead)
	}
	return next
}

// collect is a single collection in the order of trash_decision.go. A collector that finds itself fenced
// stops.
func (w world) collect(i int) []world {
	c, other := &w.gcs[i], 1-i
	stop := func() []world { *c = gcState{step: 99}; return []world{w} }
	switch c.step {
	case 0: // make a sweep folder
		w.sweep[i] = emptySweep
	case 1: // take over: move from the other's folder, then remove it
		if w.sweep[other] == fullSweep {
			w.sweep[other], w.sweep[i] = emptySweep, fullSweep
			return []world{w} // the folder may fill again before its removal
		}
		if w.sweep[other] == emptySweep {
			w.sweep[other] = removedSweep
		}
	case 2, 10: // list the trash
		for k, g := range w.trash {
			c.listed[k] = g != absent
		}
	case 3, 11: // list the claims
		for k, wr := range w.writers {
			c.live[k] = wr.claim
		}
	case 4, 12: // read the manifests
		c.used = c.step == 12 && c.used
		for _, wr := range w.writers {
			c.used = c.used || wr.manifest
		}
	case 5, 13: // carry out the fates in turn
		w.judgeChunk(c, 0)
	case 6, 14:
		w.judgeChunk(c, 1)
	case 7: // move the chunk out of sight
		if isSweepable(c.used, 0, 0) && w.chunk {
			if w.sweep[i] == removedSweep {
				return stop()
			}
			w.sweep[i], w.chunk = fullSweep, false
		}
	case 8: // read the generation, after the move
		c.g = w.current
	case 9: // bury the chunk, and begin the next generation
		if w.sweep[i] == removedSweep {
			return stop()
		}
		if w.sweep[i] == fullSweep {
			w.sweep[i], w.trash[i] = emptySweep, c.g
		}
		bumped := w
		bumped.current = max(w.current, c.g+1)
		bumped.gcs[i].step, bumped.gcs[i].g = c.step+1, 0
		return []world{bumped}
	default:
		return nil
	}
	c.step++
	c.forgetIrrelevant()
	return []world{w}
}

// forgetIrrelevant clears the fields that the collector does not look at again: states that differ in these alone have
// the same future.
func (c *gcState) forgetIrrelevant() {
	switch c.step {
	case 7:
		*c = gcState{step: c.step, used: c.used}
	case 15:
		*c = gcState{step: c.step}
	}
}

// judgeChunk carries out the decision about the chunk that a collector listed in a single trash folder.
func (w *world) judgeChunk(c *gcState, k int) {
	g := w.trash[k]
	if !c.listed[k] || g == absent {
		return
	}
	var live []generationNumber
	for i, wr := range w.writers {
		if c.live[i] {
			live = append(live, generationNumber(wr.since))
		}
	}
	switch chunkFate(c.used, isSettled(generationNumber(g), live)) {
	case purge:
		w.trash[k] = absent
	case restore:
		w.trash[k], w.chunk = absent, true
	case wait:
	}
}

// isWhole is the oracle.
func (w world) isWhole() bool {
	anywhere := w.chunk
	for k := range w.gcs {
		anywhere = anywhere || w.sweep[k] == fullSweep || w.trash[k] != absent
	}
	for _, wr := range w.writers {
		if wr.manifest && !anywhere {
			return false
		}
	}
	return true
}

func TestEveryInterleaving(t *testing.T) {
	if testing.Short() {
		t.Skip("explores millions of states")
	}
	start := world{trash: [2]int8{absent, absent}, chunk: true}
	seen := map[world]world{start: start}
	queue := []world{start}
	for len(queue) > 0 {
		w := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if !w.isWhole() {
			t.Fatalf("a committed checkpoint lost its chunk:\n%s", historyOf(seen, start, w))
		}
		for _, n := range w.moves() {
			if _, ok := seen[n]; !ok {
				seen[n] = w
				queue = append(queue, n)
			}
		}
	}
	t.Logf("%d states", len(seen))
	if len(seen) < 100_000 {
		t.Errorf("only %d states: the actors do not interleave", len(seen))
	}
}

func historyOf(seen map[world]world, start, w world) string {
	s := ""
	for ; w != start; w = seen[w] {
		s = fmt.Sprintf("%+v\n", w) + s
	}
	return s
}

// TestCollectorFreesWhatNobodyNeeds: a collector does delete unused chunks: the rules are not safe only by never
// deleting.
func TestCollectorFreesWhatNobodyNeeds(t *testing.T) {
	w := world{trash: [2]int8{absent, absent}, chunk: true}
	for {
		next := w.collect(0)
		if len(next) == 0 {
			break
		}
		w = next[0]
	}
	if w.chunk || w.sweep[0] == fullSweep || w.trash[0] != absent {
		t.Errorf("the chunk is still there: %+v", w)
	}
}

func TestFates(t *testing.T) {
	if got := []trashDecision{chunkFate(true, false), chunkFate(true, true), chunkFate(false, true), chunkFate(false, false), manifestFate(true), manifestFate(false)}; fmt.Sprint(got) != fmt.Sprint([]trashDecision{restore, restore, purge, wait, purge, wait}) {
		t.Errorf("fates = %v, want restore, restore, purge, wait, purge, wait", got)
	}
	for _, c := range []struct {
		g    generationNumber
		live []generationNumber
		want bool
	}{{3, nil, true}, {3, []generationNumber{4, 5}, true}, {3, []generationNumber{3}, false}, {3, []generationNumber{9, 2}, false}} {
		if got := isSettled(c.g, c.live); got != c.want {
			t.Errorf("isSettled(%d, %v) = %t", c.g, c.live, got)
		}
	}
	if isSweepable(true, time.Hour, 0) || isSweepable(false, time.Minute, time.Hour) || !isSweepable(false, time.Hour, time.Hour) {
		t.Error("sweepable")
	}
}
