// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// givenCounter counts the buffers that are given up.
type givenCounter struct {
	*Backend
	given atomic.Int64
}

func (m *givenCounter) GiveUp(b []byte) {
	m.Backend.GiveUp(b)
	m.given.Add(1)
}

// meeting is a communicator of ranks of a backend.
type meeting struct {
	comm   *collective.Comm
	memory *givenCounter
	before int64 // buffers that were given up before the collective that goes on
}

// makeMeeting makes the communicator of all ranks.
func makeMeeting(ranks []*spliceRank) *meeting {
	t := ranks[0]
	n, err := collective.Listen(t.Context(), collective.Config{})
	t.failOn(err)
	t.Cleanup(n.Close)
	m := &meeting{memory: &givenCounter{Backend: ranks[0].device.backend}}
	n.UseMemory(m.memory)
	spec := collective.Spec{ID: "meeting", Size: len(ranks)}
	for i := range ranks {
		spec.Ranks = append(spec.Ranks, i)
	}
	m.comm, err = n.Create(t.Context(), spec, &collective.Room{})
	t.failOn(err)
	return m
}

// queueCollective has a rank come to a collective, with buffers at src and dst.
func (m *meeting) queueCollective(r *spliceRank, op collective.Op, src, dst backend.Addr) {
	r.Helper()
	send, recv := op.Needs(r.rank, len(r.peers))
	r.failOn(r.st.Exchange([]backend.Buffer{{Addr: src, Size: uint64(send)}, {Addr: dst, Size: uint64(recv), Write: true}}, func(p [][]byte, done func(error)) {
		op.Send, op.Recv = p[0], p[1]
		if err := m.comm.Issue(r.rank, []collective.Op{op}, done); err != nil {
			done(err)
		}
	}))
}

// comeInTurn has a rank do work that ends with a collective, with the device to itself until the work waits there.
func (r *spliceRank) comeInTurn(step int, do func(*spliceRank)) {
	r.Helper()
	r.failOn(r.Map())
	r.step = step
	do(r)
	for r.st.Query() != nil {
		if r.Work() == backend.Waiting && r.Unmap() == nil {
			return
		}
		runtime.Gosched()
	}
	r.failOn(r.Drain(r.Context())) // the collective is over
	r.failOn(r.Unmap())
}

// comeInOrder has all ranks come to a collective that can be merged, each when the ranks before have been added up.
func (m *meeting) comeInOrder(step int, ranks []*spliceRank, do func(*spliceRank)) {
	m.before = m.memory.given.Load()
	for i, r := range ranks {
		r.Helper()
		r.comeInTurn(step, do)
		for came := i + 1; came < len(ranks) && m.memory.given.Load()-m.before < int64(came-bits.OnesCount(uint(came))); {
			runtime.Gosched()
		}
	}
}

// blockHashes are the hashes of a rank's blocks, as a save has them.
func (r *spliceRank) blockHashes() map[backend.BlockID]backend.Hash {
	r.Helper()
	out, key := map[backend.BlockID]backend.Hash{}, [32]byte{1, 2, 3}
	found := make(chan struct {
		id  backend.BlockID
		sum backend.Hash
	}, 1024)
	r.failOn(r.Blocks(&key, func(id backend.BlockID, sum backend.Hash) bool {
		found <- struct {
			id  backend.BlockID
			sum backend.Hash
		}{id, sum}
		return true
	}))
	close(found)
	for x := range found {
		out[x.id] = x.sum
	}
	return out
}

// sameSaves compares the bytes and the hashes that saves of two ranks have.
func sameSaves(a, b *spliceRank) bool {
	return a.holdsSame(b) && maps.Equal(a.blockHashes(), b.blockHashes())
}

// threeBlocks is a rank's memory with room for buffers of whole blocks.
var threeBlocks = spliceWay{name: "three blocks", size: 3 * backend.Granule, memory: 256 << 20, budget: 16 << 20}

// TestCollectiveOnce: whole blocks of the result that a collective gives to all ranks are there once, at once, and a save has the
// same bytes and hashes as with devices of their own. A rank that writes to its result has a block of its own, and the
// others keep theirs. The bytes beside the buffer stay each rank's.
func TestCollectiveOnce(t *testing.T) {
	const n, edge = 3, 4096
	const size = 3*backend.Granule - 2*edge // with a single whole block, and a part of a block at each end
	for _, x := range []struct {
		name    string
		op      collective.Op
		inPlace bool
		given   int64 // buffers that are given up, if the ranks come in order
	}{
		{"all-reduce in place", collective.Op{Kind: collective.AllReduce, Type: collective.Int32, Count: size / 4}, true, 1},
		{"all-reduce", collective.Op{Kind: collective.AllReduce, Type: collective.Int32, Count: size / 4}, false, 0},
		{"broadcast", collective.Op{Kind: collective.Broadcast, Type: collective.Int32, Count: size / 4, Root: 1}, false, 0},
		{"broadcast in place", collective.Op{Kind: collective.Broadcast, Type: collective.Int32, Count: size / 4, Root: 2}, true, 0},
		{"all-gather", collective.Op{Kind: collective.AllGather, Type: collective.Int32, Count: size / 4 / n}, false, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			var all [2][]*spliceRank
			for k, devices := range []int{1, n} {
				d, ranks := newSpliceRanks(t, threeBlocks, n, devices, nil, noCheck)
				m := makeMeeting(ranks)
				all[k] = ranks
				come := func(r *spliceRank) {
					for i := range uint64(6) { // bytes of the rank's in each half of a block
						r.fillPart(r.at[grads]+backend.Addr(i*backend.Granule/2), 10*r.rank+int(i)+1, backend.Granule/8)
						r.fillPart(r.at[acts]+backend.Addr(i*backend.Granule/2), 20*r.rank+int(i)+1, backend.Granule/8)
					}
					from := r.at[acts] + edge
					if x.inPlace {
						from = r.at[grads] + edge
					}
					m.queueCollective(r, x.op, from, r.at[grads]+edge)
				}
				if x.given > 0 && devices == 1 {
					m.comeInOrder(0, ranks, come)
				} else {
					for _, r := range ranks {
						r.comeInTurn(0, come)
					}
				}
				for _, r := range ranks {
					r.takeTurn(0, func(*spliceRank) {})
				}
				if got := m.memory.given.Load(); devices == 1 && got != x.given || devices == n && got != 0 {
					t.Errorf("%d devices: %d buffers were given up", devices, got)
				}
				if devices == 1 {
					wantCommon(t, d[0], "after the collective", 1, n-1, 0)
				} else {
					wantCommon(t, d[0], "on devices of their own", 0, 0, 0)
				}
			}
			check := func(when string) {
				t.Helper()
				for i := range n {
					if !sameSaves(all[0][i], all[1][i]) {
						t.Errorf("%s: rank %d has other bytes than with a device of its own", when, i)
					}
				}
			}
			check("after the collective")
			for _, ranks := range all {
				ranks[1].takeTurn(1, func(r *spliceRank) {
					r.fillPart(r.at[grads]+backend.Granule+8, 7, 1)
				})
			}
			check("after a write")
			wantCommon(t, all[0][0].device, "after a write", 1, n-2, 1)
		})
	}
}

// TestCollectiveApart: blocks of a buffer stay each rank's own where something else may use them.
func TestCollectiveApart(t *testing.T) {
	for _, x := range []struct {
		name  string
		apart func(ranks []*spliceRank)
	}{
		{"memory that processes share", func(ranks []*spliceRank) {
			_, err := ranks[0].cu.(backend.Sharer).Export(ranks[0].at[grads])
			ranks[0].failOn(err)
		}},
		{"memory that another operation uses", func(ranks []*spliceRank) {
			r := ranks[0]
			st, err := r.cu.NewStream(backend.StreamConfig{NonBlocking: true})
			r.failOn(err)
			over := make(chan func(error), 1)
			r.failOn(r.Map())
			r.failOn(st.Exchange([]backend.Buffer{{Addr: r.at[grads] + backend.Granule, Size: 4}}, func(_ [][]byte, done func(error)) { over <- done }))
			done := <-over
			r.Cleanup(func() { done(nil) })
			for r.Unmap() != nil {
				runtime.Gosched()
			}
		}},
		{"other places in a block", func(ranks []*spliceRank) { ranks[0].at[grads] += 8192 }},
	} {
		t.Run(x.name, func(t *testing.T) {
			d, ranks := newSpliceRanks(t, threeBlocks, 2, 1, nil, noCheck)
			m := makeMeeting(ranks)
			x.apart(ranks)
			const count = (3*backend.Granule - 8192) / 4
			for _, r := range ranks {
				r.comeInTurn(0, func(r *spliceRank) {
					r.fillPart(r.at[grads], 5+r.rank, count)
					m.queueCollective(r, collective.Op{Kind: collective.AllReduce, Type: collective.Int32, Count: count}, r.at[grads], r.at[grads])
				})
			}
			for _, r := range ranks {
				r.failOn(r.Map())
				r.failOn(r.st.Synchronize(r.Context()))
				b, err := r.reachBytes(r.at[grads], 4*count)
				r.failOn(err)
				if want := binary.LittleEndian.AppendUint32(nil, 11); !bytes.Equal(b[0], bytes.Repeat(want, count)) {
					t.Errorf("rank %d has another sum", r.rank)
				}
				r.failOn(r.Unmap())
			}
			wantCommon(t, d[0], "after the collective", 0, 0, 0)
			if n := m.memory.given.Load(); n != 0 {
				t.Errorf("%d buffers were given up", n)
			}
		})
	}
}

// TestCollectiveRandom: after random work with collectives in random places, each rank has the bytes of a rank with a
// device of its own.
func TestCollectiveRandom(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 2
	}
	const n = 4
	given, saved := int64(0), uint64(0)
	for seed := range seeds {
		var all [][]*spliceRank
		var meetings []*meeting
		for _, devices := range []int{n, 2, 1} {
			_, ranks := newSpliceRanks(t, threeBlocks, n, devices, nil, noCheck)
			all, meetings = append(all, ranks), append(meetings, makeMeeting(ranks))
		}
		rng := rand.New(rand.NewPCG(seed, 21))
		for step := range 6 {
			order := rng.Perm(n)
			piece, other := rng.IntN(pieces), rng.IntN(pieces)
			at := backend.Addr(rng.IntN(3) * backend.Granule / 4)
			op := collective.Op{Type: collective.Float32, Root: rng.IntN(n), Kind: []collective.Kind{collective.AllReduce, collective.AllReduce, collective.AllGather, collective.Broadcast}[rng.IntN(4)]}
			if op.Count = int((3*backend.Granule - at) / 4); op.Kind == collective.AllGather {
				op.Count /= n
			}
			inPlace, own := op.Kind == collective.AllReduce && rng.IntN(3) > 0, rng.Uint64()
			for k, ranks := range all {
				for _, i := range order {
					ranks[i].comeInTurn(step, func(r *spliceRank) {
						mine := rand.New(rand.NewPCG(own, uint64(r.rank)))
						for range 4 {
							words := mine.IntN(3 * backend.Granule / 8)
							r.fillPart(r.at[mine.IntN(pieces)]+backend.Addr(4*mine.IntN(words+1)), int(mine.Uint32()>>2), words)
						}
						from := r.at[piece] + at
						if !inPlace && piece != other {
							from = r.at[other] + at
						}
						meetings[k].queueCollective(r, op, from, r.at[piece]+at)
					})
				}
				for _, i := range order {
					ranks[i].takeTurn(step, func(*spliceRank) {})
				}
			}
			for k := range all[1:] {
				for i := range n {
					if !maps.Equal(all[0][i].blockHashes(), all[1+k][i].blockHashes()) {
						t.Fatalf("seed %d, step %d, %d devices: rank %d has other bytes", seed, step, 2-k, i)
					}
				}
			}
			saved += all[2][0].device.Common().Saved
		}
		given += meetings[1].memory.given.Load() + meetings[2].memory.given.Load()
	}
	if saved == 0 {
		t.Error("no bytes were there once")
	}
	t.Logf("%d buffers were given up", given)
}
