// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
)

// NoColour is the colour of a rank that joins none of the new communicators.
const NoColour = -1

// splitPart is a rank's argument of a split.
type splitPart struct{ colour, key int }

// newcomer is a rank's result of a split.
type newcomer struct {
	comm *Comm
	rank int
}

// Split divides the communicator: ranks of the same colour, 0 or more, make a new communicator, in
// the order of their keys, and of their ranks where keys are equal. Split is a collective: every
// rank calls Split once. done gets the new communicator, which may still be connecting, and rank's
// number there; with NoColour done gets nil. The new identity is made from this communicator's
// identity, the number of the split, and the colour; to make the new communicator again elsewhere,
// use Start. Local ranks of the same colour share a Comm.
//
// No rendezvous is needed: addresses are known, and the key is derived from this communicator's
// key.
func (c *Comm) Split(rank, colour, key int, done func(*Comm, int, error)) error {
	if colour < NoColour || int64(colour) != int64(int32(colour)) || int64(key) != int64(int32(key)) {
		return fmt.Errorf("communicator %s: %w: colour %d, key %d", c.id, ErrArgument, colour, key)
	}
	if c.ranks[rank] == nil {
		return fmt.Errorf("communicator %s: %w: rank %d is not here", c.id, ErrArgument, rank)
	}
	got := new(newcomer)
	op := Op{Kind: splitRanks, Type: Uint64, Count: 1, split: &splitPart{colour, key}, got: got}
	return c.enqueueBatch(rank, &batch{ops: []Op{op}, done: func(err error) {
		if err != nil {
			done(nil, 0, err)
			return
		}
		done(got.comm, got.rank, nil)
	}})
}

// splitComms is the collective: each process sends the colours and keys of its ranks to all, and
// then each knows all the new communicators.
func (r *run) splitComms() error {
	all := make([]byte, 8*r.size)
	var ours [][]byte
	for _, rank := range r.local {
		b := partAt(all, rank, 8)
		binary.LittleEndian.PutUint32(b, uint32(r.localOp(rank).split.colour))
		binary.LittleEndian.PutUint32(b[4:], uint32(r.localOp(rank).split.key))
		ours = append(ours, b)
	}
	err := r.exchangeParts(
		func(int) [][]byte { return ours },
		func(p int) (parts [][]byte) {
			for _, rank := range r.layout.ranks[p] {
				parts = append(parts, partAt(all, rank, 8))
			}
			return parts
		})
	if err != nil {
		return err
	}
	keys := make([]int, r.size)
	colours := make(map[int][]int) // ranks
	for rank := range r.size {
		b := partAt(all, rank, 8)
		colour := int(int32(binary.LittleEndian.Uint32(b)))
		keys[rank] = int(int32(binary.LittleEndian.Uint32(b[4:])))
		if colour >= 0 {
			colours[colour] = append(colours[colour], rank)
		}
	}
	r.mu.Lock()
	r.splits++
	number := r.splits
	r.mu.Unlock()
	for _, rank := range r.local {
		colour := r.localOp(rank).split.colour
		if got := r.localOp(rank).got; colour >= 0 && got.comm == nil {
			if err := r.startBranch(number, colour, colours[colour], keys); err != nil {
				return err
			}
		}
	}
	return nil
}

// branchID is the identity of a communicator that a split makes: the same for all its members, and
// of a fixed length at any depth.
func branchID(parent string, number, colour int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d.%d", parent, number, colour))
	return hex.EncodeToString(sum[:16])
}

// startBranch starts the communicator of a colour, and gives the communicator to its local ranks.
func (r *run) startBranch(number, colour int, ranks, keys []int) error {
	slices.SortStableFunc(ranks, func(a, b int) int { return cmp.Compare(keys[a], keys[b]) })
	spec := Spec{ID: branchID(r.id, number, colour), Size: len(ranks)}
	roster := Roster{Key: AuthCode(r.key, []byte("split"), []byte(spec.ID))}
	member := make(map[int]int) // process → index
	for i, old := range ranks {
		p := r.home[old]
		if _, known := member[p]; !known {
			member[p] = len(roster.Members)
			roster.Members = append(roster.Members, Member{Address: r.address[p], Server: r.server[p], Gone: r.gone[p]})
		}
		m := &roster.Members[member[p]]
		m.Ranks = append(m.Ranks, i)
	}
	spec.Ranks = roster.Members[member[r.me]].Ranks
	c, err := r.node.startComm(r.node.ctx, spec, func(context.Context) (Roster, error) { return roster, nil })
	if err != nil {
		return err
	}
	for i, old := range ranks {
		if r.home[old] == r.me {
			*r.localOp(old).got = newcomer{c, i}
		}
	}
	return nil
}
