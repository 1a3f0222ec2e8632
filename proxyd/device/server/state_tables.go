// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"maps"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/replay"
)

// handles is a table as a save and a restore see it.
type handles interface {
	counter() uint64
	list() []uint64
	has(uint64) bool
	// restore has make go on behind the n-th handle, and forget what it was to give out.
	restore(n uint64)
	// rewind has make go on behind the n-th handle too, unless a later one is in use.
	rewind(n uint64)
	// force has make give out this handle, once, after those that it was told before.
	force(h uint64)
}

func (t *table[H, T]) counter() uint64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.last
}

func (t *table[H, T]) list() []uint64 {
	hs, _ := sorted(t)
	out := make([]uint64, len(hs))
	for i, h := range hs {
		out[i] = uint64(h)
	}
	return out
}

func (t *table[H, T]) has(h uint64) bool {
	_, ok := t.get(H(h))
	return ok
}

func (t *table[H, T]) restore(n uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last, t.forced = n, nil
}

func (t *table[H, T]) rewind(n uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for h := range t.all {
		if uint64(h) >= firstServer && uint64(h)&(1<<classShift-1) > n {
			return
		}
	}
	t.last = n
}

func (t *table[H, T]) force(h uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Contains(t.forced, H(h)) {
		t.forced = append(t.forced, H(h))
	}
}

// next is the handle that make gives out. The caller holds mu.
func (t *table[H, T]) next() H {
	if len(t.forced) > 0 {
		h := t.forced[0]
		t.forced = t.forced[1:]
		return h
	}
	t.last++
	return H(t.class.handle(t.last))
}

// tables are all tables of a process, by what the calls' table calls their classes.
func (p *process) tables() map[replay.Class]handles {
	all := map[replay.Class]handles{}
	for _, part := range []map[replay.Class]handles{
		p.core.tables(), p.memoryCalls.tables(), p.moduleCalls.tables(), p.graphs.tables(), p.ncclCalls.tables(),
	} {
		maps.Copy(all, part)
	}
	return all
}
