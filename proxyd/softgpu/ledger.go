// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"cmp"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/ledger"
)

// spaceLedger is the memory that calls may name, over bytes of this process. The space's lock guards a spaceLedger.
type spaceLedger struct {
	*ledger.Ledger[*arena]
	freeing []freedMemory
}

type (
	holder = ledger.Arena[*arena]
	piece  = ledger.Piece[*arena]
)

// arena is bytes of the ledger.
type arena struct {
	bytes []byte
	away  []byte // the bytes in the host's memory, while they are not in a.bytes; see swap.go
	sums  sums
	// commonBlocks is which blocks show bytes that they have in common with blocks of other arenas; see common_blocks.go.
	commonBlocks commonBlocks
	share        *arenaShare // nil: the arena is of one space; else see share.go. The mu of each space that has the arena guards the pointer
}

// makeArena makes zeroed bytes.
func makeArena(n uint64) (*arena, error) {
	b, err := newArena(n)
	if err != nil {
		return nil, err
	}
	return &arena{bytes: b}, nil
}

// freeBytes frees the bytes that makeArena made.
func (a *arena) freeBytes() {
	freeArena(a.bytes)
	a.dropCommon()
	if a.away != nil {
		freeArena(a.away)
	}
}

// freedMemory is memory that calls may no longer name and that work may still use.
type freedMemory struct {
	base backend.Addr
	size uint64
	over *mark
}

// bytesOf is a piece's bytes.
func bytesOf(p piece) []byte {
	at, n := p.Offset(), p.Size()
	return p.Arena.Bytes.bytes[at:][:n:n]
}

// addFreeing notes that addresses may be given to other allocations, which wait for the mark.
func (b *spaceLedger) addFreeing(a backend.Addr, n uint64) *mark {
	over := newMark()
	b.freeing = append(b.freeing, freedMemory{a, n, over})
	return over
}

// waitsFor lists the marks that must be reached before addresses can be used again.
func (b *spaceLedger) waitsFor(a backend.Addr, n uint64) []*mark {
	var out []*mark
	b.freeing = slices.DeleteFunc(b.freeing, func(f freedMemory) bool { return f.over.isReached() })
	for _, f := range b.freeing {
		if f.base < a+backend.Addr(n) && a < f.base+backend.Addr(f.size) {
			out = append(out, f.over)
		}
	}
	return out
}

func compareAddrs(a, b backend.Addr) int { return cmp.Compare(a, b) }
