// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package gemm

import "sync"

// sharedPanels are all panels of op(B) for the columns of a tile, for the tiles below and for all workers of a launch.
type sharedPanels[T element] struct {
	column, member uint64
	users          int         // workers, guarded by panelPool.mu
	values         []T         // chunk after chunk
	packed         []sync.Once // of each chunk
}

// panelPool has the shared panels of a launch. Blocks begin in ascending order, so that the workers are in few columns
// of tiles at a time, and need few sharedPanels.
type panelPool[T element] struct {
	size, chunks int // of sharedPanels
	mu           sync.Mutex
	panels       []*sharedPanels[T]
}

// newPanelPool returns nil if tiles are to have a chunk of op(B) at a time: there is no tile below, or all chunks are too much.
func newPanelPool[T element](x *product) *panelPool[T] {
	columns := countPanelColumns(x)
	if x.m <= tileRows || x.k*columns*uint64(sizeOf[T]()) > keptB {
		return nil
	}
	return &panelPool[T]{size: int(x.k * columns), chunks: int((x.k + chunk - 1) / chunk)}
}

// countPanelColumns is the number of columns of the panels of a tile of op(B): fewer than those of a tile if the product has fewer.
func countPanelColumns(x *product) uint64 {
	return min(tileColumns, (x.n+panelColumns-1)/panelColumns*panelColumns)
}

// switchPanels returns the panels of a place for a worker that has used those of another place, or nil, until now.
func (p *panelPool[T]) switchPanels(from *sharedPanels[T], at tilePosition) *sharedPanels[T] {
	if from != nil && from.column == at.column && from.member == at.member {
		return from
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if from != nil {
		from.users--
	}
	var unused *sharedPanels[T]
	for _, s := range p.panels {
		if s.column == at.column && s.member == at.member {
			s.users++
			return s
		}
		if s.users == 0 {
			unused = s
		}
	}
	if unused == nil {
		unused = &sharedPanels[T]{values: alignedSlice[T](p.size)}
		p.panels = append(p.panels, unused)
	}
	unused.column, unused.member, unused.users = at.column, at.member, 1
	unused.packed = make([]sync.Once, p.chunks)
	return unused
}
