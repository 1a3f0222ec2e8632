// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// gradientBytes is the size of a merger's buffers.
const gradientBytes = 4 * backend.Granule

// merger is four ranks of a server that share a device and add up buffers in place.
type merger struct {
	t   *testing.T
	s   *Server
	all []rank
	at  [][]uint64 // by rank: its buffers
}

// makeMerger makes the ranks, with a number of buffers each, on a machine with several devices.
func makeMerger(t *testing.T, devices, buffers int) *merger {
	t.Helper()
	s := serverOf(t, "test", []int{0, 0, 0, 0}, slices.Repeat([]uint64{testMemory}, devices)...)
	s.collectives.AbortTime = time.Hour
	m := &merger{t: t, s: s, all: makeRanks(t, s, s, s, s)}
	for _, r := range m.all {
		var at []uint64
		for range buffers {
			at = append(at, r.alloc(gradientBytes))
		}
		m.at = append(m.at, at)
	}
	return m
}

// fillBuffer gives each rank a value of its own in a buffer.
func (m *merger) fillBuffer(buffer int) {
	for i, r := range m.all {
		r.must("cuMemsetD32_v2", m.at[i][buffer], uint32(i+1), uint64(gradientBytes/4))
		r.must("cuCtxSynchronize")
	}
}

// giveVector has a rank come to the sum of a buffer.
func (m *merger) giveVector(i, buffer int) {
	data := dispatch.Devptr(m.at[i][buffer])
	m.all[i].issueCounted(dispatch.Ncclop{Kind: int32(collective.AllReduce), Type: ncclInt32, Count: gradientBytes / 4, Src: data, Dst: data, Comm: commA})
}

// countSaved is how many bytes are there once for several ranks.
func (m *merger) countSaved() (n uint64) {
	for _, d := range m.s.Status().Sharing {
		n += d.Saved
	}
	return n
}

// comeInPairs has two ranks come, and returns when their vectors are added up.
func (m *merger) comeInPairs(i, k, buffer int) {
	before := m.countSaved()
	m.giveVector(i, buffer)
	m.giveVector(k, buffer)
	for m.countSaved() < before+gradientBytes {
		runtime.Gosched()
	}
}

// wantSum checks a buffer of a rank.
func (m *merger) wantSum(when string, i, buffer int, want int32) {
	m.t.Helper()
	for k := uint64(0); k < gradientBytes; k += backend.Granule / 2 {
		if got := m.all[i].readInts(m.at[i][buffer]+k, 1)[0]; got != want {
			m.t.Errorf("%s: rank %d has %d at %#x of buffer %d, want %d", when, i, got, k, buffer, want)
		}
	}
}

// TestPlacedHalfMerged: the job's devices are placed anew, and regrouped, while the gradients of two of four ranks are
// added up, and again when the third rank has come. All ranks have the sum, and no byte is common once the memory is
// freed.
func TestPlacedHalfMerged(t *testing.T) {
	const devices = 4
	m := makeMerger(t, devices, 1)
	rng := rand.New(rand.NewPCG(4, 44))
	together := []int{0, 0, 0, 0}
	place := func() {
		order := make([]int, len(together))
		for i := range order {
			order[i] = rng.IntN(devices)
		}
		put := m.s.Place
		if rng.IntN(3) == 0 {
			put = m.s.Arrange
		}
		if err := put(t.Context(), order); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 12 {
		if err := m.s.Place(t.Context(), together); err != nil {
			t.Fatal(err)
		}
		m.fillBuffer(0)
		pair, rest := []int{0, 1}, []int{2, 3}
		if round%2 == 1 {
			pair, rest = rest, pair
		}
		rng.Shuffle(2, func(i, k int) { pair[i], pair[k] = pair[k], pair[i] })
		m.comeInPairs(pair[0], pair[1], 0)
		place()
		m.giveVector(rest[0], 0)
		place()
		if round%3 == 0 {
			place()
		}
		m.giveVector(rest[1], 0)
		for i := range m.all {
			m.wantSum("after the sum", i, 0, 1+2+3+4)
		}
	}
	for i, r := range m.all {
		r.must("cuMemFree_v2", m.at[i][0])
		r.must("cuCtxSynchronize")
	}
	if n := m.countSaved(); n != 0 {
		t.Errorf("%d bytes are there once for several ranks, though all is freed", n)
	}
}

// TestHalfMergedEnds: the gradients of two of four ranks are added up when a rank ends, aborts the communicator, or asks
// for something else. Each rank that is left is told, has its memory again after it has aborted the communicator, and
// adds up in another communicator.
func TestHalfMergedEnds(t *testing.T) {
	kill := func(i int) func(*merger) {
		return func(m *merger) { m.all[i].p.endProcess("a test") }
	}
	abort := func(i int) func(*merger) {
		return func(m *merger) { m.all[i].must("ncclCommAbort", uint64(commA)) }
	}
	for _, x := range []struct {
		name string
		end  func(m *merger)
		gone int // the rank that is gone; -1: all stay
	}{
		{"the rank with the sum is killed", kill(0), 0},
		{"the rank without its vector is killed", kill(1), 1},
		{"a rank that has not come is killed", kill(2), 2},
		{"the rank with the sum aborts", abort(0), -1},
		{"the rank without its vector aborts", abort(1), -1},
		{"a rank that has not come aborts", abort(3), -1},
		{"the context of the rank without its vector is destroyed", func(m *merger) { m.all[1].must("cuCtxDestroy_v2", uint64(ctxA)) }, 1},
		{"a rank destroys its communicator", func(m *merger) { m.all[2].must("ncclCommDestroy", uint64(commA)) }, -1},
		{"a rank splits the communicator", func(m *merger) {
			m.all[3].must("comm_split", uint64(commA), int32(0), int32(0), uint64(commB), uint64(0), uint64(0), uint32(0))
		}, -1},
	} {
		t.Run(x.name, func(t *testing.T) {
			m := makeMerger(t, 1, 1)
			m.fillBuffer(0)
			m.comeInPairs(0, 1, 0)
			x.end(m)
			var left []rank
			for i, r := range m.all {
				if i == x.gone {
					continue
				}
				left = append(left, r)
				for state := int32(0); state == 0; {
					result, answer := r.call("comm_state", uint64(commA), uint32(0))
					if result != 0 { // the rank has no communicator any more
						break
					}
					state = int32(answer[0])
				}
			}
			for _, r := range left {
				r.call("ncclCommAbort", uint64(commA))
				r.must("cuCtxSynchronize")
			}
			for i, r := range m.all {
				if i != x.gone {
					r.must("cuMemFree_v2", m.at[i][0])
					r.must("cuCtxSynchronize")
				}
			}
			waitFor(t, "no byte is common", func() bool { return m.countSaved() == 0 })
			if d := m.s.Status().Sharing; len(d) > 0 && d[0].Private >= gradientBytes {
				t.Errorf("%d bytes are left", d[0].Private)
			}
			makeAgain(t, left)
			checkSums(t, left, 0x40009, int32(len(left)*(len(left)+1)/2))
		})
	}
}

// makeAgain makes another communicator of ranks.
func makeAgain(t *testing.T, all []rank) {
	t.Helper()
	id := [128]byte(all[0].must("ncclGetUniqueId"))
	for i, r := range all {
		r.init(0x40009, len(all), i, id)
	}
	for i, r := range all {
		if state, _, _, _ := r.waitForState(0x40009); state != 0 {
			t.Fatalf("rank %d: state %d", i, state)
		}
	}
}

// TestSplitHalfMerged: ranks split another communicator, and add up in its halves, while the gradients of two of them are
// added up.
func TestSplitHalfMerged(t *testing.T) {
	const half = 0x40003
	m := makeMerger(t, 1, 1)
	makeComm(t, m.all, commB)
	m.fillBuffer(0)
	m.comeInPairs(0, 1, 0)
	splitBy(m.all, commB, half, 0, 0, 1, 1)
	for i, r := range m.all {
		if state, size, at, _ := r.waitForState(half); state != 0 || size != 2 || int(at) != i%2 {
			t.Fatalf("rank %d: state %d, rank %d of %d", i, state, at, size)
		}
	}
	m.giveVector(2, 0)
	m.giveVector(3, 0)
	for i := range m.all {
		m.wantSum("after the split", i, 0, 1+2+3+4)
	}
	checkSums(t, m.all[:2], half, 3)
	checkSums(t, m.all[2:], half, 3)
}
