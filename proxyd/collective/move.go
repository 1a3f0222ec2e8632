// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import "math/bits"

// What follows moves bytes and computes nothing. Each process says everything that it has for
// another in one message; the messages of all pairs are under way at the same time.

// exchange sends to every other process what to tells, and receives what from tells.
func (r *run) exchange(to, from func(process int) [][]byte) error {
	var all []*message
	r.others(func(p int) { all = append(all, r.receive(p, 0, from(p)...)) })
	r.others(func(p int) { all = append(all, r.send(p, 0, to(p)...)) })
	return r.wait(all...)
}

func nothing(int) [][]byte { return nil }

// at returns the i-th of the parts of b that have n bytes each.
func at(b []byte, i, n int) []byte { return b[i*n : (i+1)*n] }

func (r *run) allGather() error {
	one := len(r.first().Send)
	var ours [][]byte
	for _, rank := range r.local {
		ours = append(ours, r.part(rank).Send)
	}
	err := r.exchange(
		func(int) [][]byte { return ours },
		func(p int) (parts [][]byte) {
			for _, rank := range r.layout.ranks[p] {
				parts = append(parts, at(r.first().Recv, rank, one))
			}
			return parts
		})
	if err != nil {
		return err
	}
	// Now what is local. In place, a rank's Send is in its Recv, where it belongs.
	for _, rank := range r.local {
		copy(at(r.first().Recv, rank, one), r.part(rank).Send)
	}
	r.spread(0, one*r.size)
	return nil
}

func (r *run) allToAll() error {
	one := r.coll.op.Count * r.coll.op.Type.Size()
	from := make(map[int][]byte, len(r.local))
	for _, rank := range r.local {
		op := r.part(rank)
		from[rank] = op.Send
		if overlap(op.Send, op.Recv) { // in place: what comes must not overwrite what goes
			from[rank] = append([]byte(nil), op.Send...)
		}
	}
	for _, i := range r.local {
		for _, j := range r.local {
			copy(at(r.part(j).Recv, i, one), at(from[i], j, one))
		}
	}
	return r.exchange(
		func(p int) (parts [][]byte) {
			for _, i := range r.local {
				for _, j := range r.layout.ranks[p] {
					parts = append(parts, at(from[i], j, one))
				}
			}
			return parts
		},
		func(p int) (parts [][]byte) {
			for _, i := range r.layout.ranks[p] {
				for _, j := range r.local {
					parts = append(parts, at(r.part(j).Recv, i, one))
				}
			}
			return parts
		})
}

func (r *run) gather() error {
	root := r.coll.op.Root
	home, one := r.home[root], len(r.first().Send)
	if home != r.me {
		var ours [][]byte
		for _, rank := range r.local {
			ours = append(ours, r.part(rank).Send)
		}
		return r.wait(r.send(home, 0, ours...))
	}
	recv := r.part(root).Recv
	for _, rank := range r.local {
		copy(at(recv, rank, one), r.part(rank).Send)
	}
	return r.exchange(nothing, func(p int) (parts [][]byte) {
		for _, rank := range r.layout.ranks[p] {
			parts = append(parts, at(recv, rank, one))
		}
		return parts
	})
}

func (r *run) scatter() error {
	root := r.coll.op.Root
	home, one := r.home[root], len(r.first().Recv)
	if home != r.me {
		var ours [][]byte
		for _, rank := range r.local {
			ours = append(ours, r.part(rank).Recv)
		}
		return r.wait(r.receive(home, 0, ours...))
	}
	send := r.part(root).Send
	for _, rank := range r.local {
		copy(r.part(rank).Recv, at(send, rank, one))
	}
	return r.exchange(func(p int) (parts [][]byte) {
		for _, rank := range r.layout.ranks[p] {
			parts = append(parts, at(send, rank, one))
		}
		return parts
	}, nothing)
}

// broadcast goes down a binomial tree in one piece, or through a chain of all processes in slices,
// whichever needs less time if each process's connection is the limit: K slices through n
// processes take K+n-2 slice times, a binomial tree K·⌈log₂ n⌉.
func (r *run) broadcast() error {
	root := r.coll.op.Root
	top, n := r.home[root], r.processes()
	buf := r.first().Recv
	if top == r.me {
		buf = r.part(root).Send
	}
	slice := r.node.tuning.slice
	slices := (len(buf) + slice - 1) / slice
	var err error
	if slices+n-2 < slices*bits.Len(uint(n-1)) {
		err = r.chain(buf, top, slice, slices)
	} else {
		err = r.down(buf, top)
	}
	if err != nil {
		return err
	}
	for _, rank := range r.local {
		copy(r.part(rank).Recv, buf)
	}
	return nil
}

func (r *run) chain(buf []byte, top, slice, slices int) error {
	n, depth := r.processes(), max(r.node.tuning.depth, 2)
	v := (r.me - top + n) % n
	next, previous := (r.me+1)%n, (r.me+n-1)%n
	piece := func(k int) []byte { return buf[k*slice : min((k+1)*slice, len(buf))] }
	var sends, recvs []*message
	for k := range slices {
		for v > 0 && len(recvs) < min(k+depth, slices) {
			recvs = append(recvs, r.receive(previous, len(recvs), piece(len(recvs))))
		}
		if v > 0 {
			if err := r.wait(recvs[k]); err != nil {
				return err
			}
		}
		if v < n-1 {
			sends = append(sends, r.send(next, k, piece(k)))
		}
		if done := k - depth; done >= 0 && len(sends) > 0 {
			if err := r.wait(sends[done]); err != nil {
				return err
			}
		}
	}
	return r.wait(sends...)
}
