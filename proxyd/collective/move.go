// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import "math/bits"

// The functions of this file move bytes without arithmetic. Each process puts all its bytes for
// another into a single message; the messages of all pairs are under way at the same time.

// exchangeParts sends to(p) to every other process p, and receives into from(p).
func (r *run) exchangeParts(to, from func(process int) [][]byte) error {
	var all []*message
	r.forOthers(func(p int) { all = append(all, r.receivePart(p, 0, from(p)...)) })
	r.forOthers(func(p int) { all = append(all, r.sendPart(p, 0, to(p)...)) })
	return r.waitForAll(all...)
}

func noBytes(int) [][]byte { return nil }

// partAt returns the i-th of the parts of b that have n bytes each.
func partAt(b []byte, i, n int) []byte { return b[i*n : (i+1)*n] }

func (r *run) allGather() error {
	one := len(r.firstOp().Send)
	var ours [][]byte
	for _, rank := range r.local {
		ours = append(ours, r.localOp(rank).Send)
	}
	err := r.exchangeParts(
		func(int) [][]byte { return ours },
		func(p int) (parts [][]byte) {
			for _, rank := range r.layout.ranks[p] {
				parts = append(parts, partAt(r.firstOp().Recv, rank, one))
			}
			return parts
		})
	if err != nil {
		return err
	}
	// The bytes of local ranks. In place, a rank's Send is in its Recv, at its proper place.
	for _, rank := range r.local {
		copy(partAt(r.firstOp().Recv, rank, one), r.localOp(rank).Send)
	}
	r.spreadToLocal(r.firstOp().Recv)
	return nil
}

func (r *run) allToAll() error {
	one := r.coll.op.Count * r.coll.op.Type.Size()
	from := make(map[int][]byte, len(r.local))
	for _, rank := range r.local {
		op := r.localOp(rank)
		from[rank] = op.Send
		if rangesOverlap(op.Send, op.Recv) { // in place: received bytes must not overwrite bytes that are still to be sent
			from[rank] = append([]byte(nil), op.Send...)
		}
	}
	for _, i := range r.local {
		for _, j := range r.local {
			copy(partAt(r.localOp(j).Recv, i, one), partAt(from[i], j, one))
		}
	}
	return r.exchangeParts(
		func(p int) (parts [][]byte) {
			for _, i := range r.local {
				for _, j := range r.layout.ranks[p] {
					parts = append(parts, partAt(from[i], j, one))
				}
			}
			return parts
		},
		func(p int) (parts [][]byte) {
			for _, i := range r.layout.ranks[p] {
				for _, j := range r.local {
					parts = append(parts, partAt(r.localOp(j).Recv, i, one))
				}
			}
			return parts
		})
}

func (r *run) gatherParts() error {
	root := r.coll.op.Root
	home, one := r.home[root], len(r.firstOp().Send)
	if home != r.me {
		var ours [][]byte
		for _, rank := range r.local {
			ours = append(ours, r.localOp(rank).Send)
		}
		return r.waitForAll(r.sendPart(home, 0, ours...))
	}
	recv := r.localOp(root).Recv
	for _, rank := range r.local {
		copy(partAt(recv, rank, one), r.localOp(rank).Send)
	}
	return r.exchangeParts(noBytes, func(p int) (parts [][]byte) {
		for _, rank := range r.layout.ranks[p] {
			parts = append(parts, partAt(recv, rank, one))
		}
		return parts
	})
}

func (r *run) scatterParts() error {
	root := r.coll.op.Root
	home, one := r.home[root], len(r.firstOp().Recv)
	if home != r.me {
		var ours [][]byte
		for _, rank := range r.local {
			ours = append(ours, r.localOp(rank).Recv)
		}
		return r.waitForAll(r.receivePart(home, 0, ours...))
	}
	send := r.localOp(root).Send
	for _, rank := range r.local {
		copy(r.localOp(rank).Recv, partAt(send, rank, one))
	}
	return r.exchangeParts(func(p int) (parts [][]byte) {
		for _, rank := range r.layout.ranks[p] {
			parts = append(parts, partAt(send, rank, one))
		}
		return parts
	}, noBytes)
}

// broadcastParts goes down a binomial tree in a single piece, or through a chain of all processes in
// slices, whichever needs less time if each process's connection is the limit: K slices through n
// processes take K+n-2 slice times, a binomial tree K·⌈log₂ n⌉.
func (r *run) broadcastParts() error {
	root := r.coll.op.Root
	top, n := r.home[root], r.processCount()
	buf := r.firstOp().Recv
	if top == r.me {
		buf = r.localOp(root).Send
	}
	slice := r.node.tuning.slice
	slices := (len(buf) + slice - 1) / slice
	var err error
	if slices+n-2 < slices*bits.Len(uint(n-1)) {
		err = r.passAlongChain(buf, top, slice, slices)
	} else {
		err = r.broadcastFrom(buf, top)
	}
	if err != nil {
		return err
	}
	r.spreadToLocal(buf)
	return nil
}

func (r *run) passAlongChain(buf []byte, top, slice, slices int) error {
	n, depth := r.processCount(), max(r.node.tuning.depth, 2)
	v := (r.me - top + n) % n
	next, previous := (r.me+1)%n, (r.me+n-1)%n
	piece := func(k int) []byte { return buf[k*slice : min((k+1)*slice, len(buf))] }
	var sends, recvs []*message
	for k := range slices {
		for v > 0 && len(recvs) < min(k+depth, slices) {
			recvs = append(recvs, r.receivePart(previous, len(recvs), piece(len(recvs))))
		}
		if v > 0 {
			if err := r.waitForAll(recvs[k]); err != nil {
				return err
			}
		}
		if v < n-1 {
			sends = append(sends, r.sendPart(next, k, piece(k)))
		}
		if done := k - depth; done >= 0 && len(sends) > 0 {
			if err := r.waitForAll(sends[done]); err != nil {
				return err
			}
		}
	}
	return r.waitForAll(sends...)
}
