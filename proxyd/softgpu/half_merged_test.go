// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// These tests disturb ranks while some of them have come to an all-reduce in place, and others have not, so that vectors
// of the first are added up already.

// mergeCounter counts which pairs of vectors were tried, and which vectors were given up.
type mergeCounter struct {
	*Backend
	tried, given atomic.Int64
}

func (m *mergeCounter) CanShare(buffers [][]byte) bool {
	can := m.Backend.CanShare(buffers)
	if !can {
		m.tried.Add(1)
	}
	return can
}

func (m *mergeCounter) GiveUp(b []byte) {
	m.Backend.GiveUp(b)
	m.given.Add(1)
	m.tried.Add(1)
}

// halfMerged is an all-reduce in place to which some of the ranks have come.
type halfMerged struct {
	comm   *collective.Comm
	memory *mergeCounter
	ranks  []*spliceRank
	apart  map[int]bool // ranks of which the memory may not be shared

	came         map[int]bool
	sums         map[[2]int]bool // nodes of the tree: true if the sum is there, false if it was refused
	tried, given int64           // that the all-reduce must have had by now
}

// newHalfMerged makes a communicator of all ranks.
func newHalfMerged(ranks []*spliceRank) *halfMerged {
	m := &halfMerged{memory: &mergeCounter{Backend: ranks[0].device.backend}, ranks: ranks, apart: map[int]bool{}}
	m.makeCommunicator("half merged")
	return m
}

func (m *halfMerged) makeCommunicator(id string) {
	t := m.ranks[0]
	n, err := collective.Listen(t.Context(), collective.Config{})
	t.failOn(err)
	t.Cleanup(n.Close)
	n.UseMemory(m.memory)
	spec := collective.Spec{ID: id, Size: len(m.ranks)}
	for i := range m.ranks {
		spec.Ranks = append(spec.Ranks, i)
	}
	m.comm, err = n.Create(t.Context(), spec, &collective.Room{})
	t.failOn(err)
	m.came = nil
}

// giveVector has a rank fill its buffer and come, and waits until all vectors are added up that can be. No all-reduce is under
// way when the first rank comes.
func (m *halfMerged) giveVector(r *spliceRank, at backend.Addr, words int, do func(*spliceRank)) {
	r.Helper()
	if len(m.came) == 0 || len(m.came) == len(m.ranks) {
		m.came, m.sums, m.tried, m.given = map[int]bool{}, map[[2]int]bool{}, m.memory.tried.Load(), m.memory.given.Load()
	}
	r.comeInTurn(r.step+1, func(r *spliceRank) {
		do(r)
		b := []backend.Buffer{{Addr: at, Size: uint64(4 * words)}, {Addr: at, Size: uint64(4 * words), Write: true}}
		r.failOn(r.st.Exchange(b, func(p [][]byte, done func(error)) {
			op := collective.Op{Kind: collective.AllReduce, Type: collective.Float32, Count: words, Send: p[0], Recv: p[1]}
			if err := m.comm.Issue(r.rank, []collective.Op{op}, done); err != nil {
				done(err)
			}
		}))
	})
	m.came[r.rank] = true
	if len(m.came) == len(m.ranks) {
		return
	}
	m.expectSum(0, len(m.ranks))
	for m.memory.tried.Load() < m.tried || m.memory.given.Load() < m.given {
		runtime.Gosched()
	}
	if tried, given := m.memory.tried.Load(), m.memory.given.Load(); tried != m.tried || given != m.given {
		r.Errorf("%d pairs were tried and %d vectors given up, want %d and %d", tried, given, m.tried, m.given)
	}
}

// expectSum notes the sums that are made for ranks lo … hi-1, and tells whether there is one for all of them.
func (m *halfMerged) expectSum(lo, hi int) bool {
	if hi-lo == 1 {
		return m.came[lo]
	}
	half := 1
	for half*2 < hi-lo {
		half *= 2
	}
	first, second := m.expectSum(lo, lo+half), m.expectSum(lo+half, hi)
	node := [2]int{lo, hi}
	done, tried := m.sums[node]
	if !first || !second || tried {
		return done
	}
	can := m.ranks[lo].deviceNow() == m.ranks[lo+half].deviceNow() && !m.apart[lo] && !m.apart[lo+half]
	m.sums[node] = can
	m.tried++
	if can {
		m.given++
	}
	return can
}

// deviceNow is the device that the rank is on.
func (r *spliceRank) deviceNow() *device { return r.space.at.Load() }

// moveTo moves a rank, which does not run, to a device.
func (r *spliceRank) moveTo(d *device) {
	r.Helper()
	r.failOn(r.Move(d))
}

// workBeside has a rank do work in another stream, with the device to itself.
func (r *spliceRank) workBeside(do func(backend.Stream)) {
	r.Helper()
	r.failOn(r.Map())
	st, err := r.cu.NewStream(backend.StreamConfig{NonBlocking: true})
	r.failOn(err)
	do(st)
	r.failOn(st.Synchronize(r.Context()))
	r.failOn(st.Destroy())
	for r.Unmap() != nil {
		runtime.Gosched()
	}
}

// freeMerged frees all memory of ranks and checks that no common memory is left anywhere.
func freeMerged(t *testing.T, devices []*device, ranks []*spliceRank) {
	t.Helper()
	for _, r := range ranks {
		if r.closed {
			continue
		}
		r.takeTurn(r.step+1, func(r *spliceRank) {
			for _, at := range r.at {
				if at != 0 {
					r.failOn(r.cu.Free(at))
				}
			}
		})
	}
	for i, d := range devices {
		if c := d.Common(); c.Shared != 0 || c.Saved != 0 {
			t.Errorf("device %d has %d common bytes, and saves %d, though all is freed", i, c.Shared, c.Saved)
		}
		if n := d.common.Blocks(); n != 0 {
			t.Errorf("%d common blocks of device %d are left", n, i)
		}
	}
}

// wantSame compares all bytes of the ranks with those of undisturbed ranks.
func wantSame(t *testing.T, when string, got, want []*spliceRank) {
	t.Helper()
	for i := range got {
		if !got[i].closed && !maps.Equal(got[i].blockHashes(), want[i].blockHashes()) {
			t.Fatalf("%s: rank %d has other bytes than an undisturbed rank", when, i)
		}
	}
}

// twoBlocks is a rank's memory with room for a buffer of whole blocks.
var twoBlocks = spliceWay{name: "two blocks", size: 2 * backend.Granule, memory: 256 << 20, budget: 16 << 20}

// TestHalfMergedMoves: while vectors of some ranks are added up, ranks move to other devices and back, leave a device
// that is full, work on other memory, copy from the vectors that they have given, and let others import these. Each rank has the bytes
// of an undisturbed rank with a device of its own.
func TestHalfMergedMoves(t *testing.T) {
	seeds := uint64(6)
	if testing.Short() {
		seeds = 3
	}
	const n = 5
	given, moves, swapped := int64(0), 0, uint64(0)
	for seed := range seeds {
		way := twoBlocks
		if seed%3 == 2 {
			way.memory = 34 << 20 // room for a rank and a half
		}
		devices, ranks := newSpliceRanks(t, way, n, 3, nil, noCheck)
		_, quiet := newSpliceRanks(t, twoBlocks, n, n, nil, noCheck)
		m, still := newHalfMerged(ranks), newHalfMerged(quiet)
		both := func(i int, do func(*spliceRank)) {
			do(ranks[i])
			do(quiet[i])
		}
		rng := rand.New(rand.NewPCG(seed, 33))
		for _, r := range ranks {
			r.moveTo(devices[0])
		}
		for step := range 4 {
			piece, other := rng.IntN(pieces), 0
			if other = rng.IntN(pieces - 1); other >= piece {
				other++
			}
			from := backend.Addr(rng.IntN(3) * backend.Granule / 4)
			words := int((2*backend.Granule - from) / 4)
			order := rng.Perm(n)
			for k, i := range order {
				value := int(rng.Uint32() >> 2)
				both(i, func(r *spliceRank) {
					x := m
					if r == quiet[i] {
						x = still
					}
					x.giveVector(r, r.at[piece]+from, words, func(r *spliceRank) {
						r.fillPart(r.at[piece], value, backend.Granule/4)
						r.fillPart(r.at[piece]+backend.Granule, value/3, backend.Granule/8)
						r.fillPart(r.at[piece]+3*backend.Granule/2, value/7, backend.Granule/8)
					})
				})
				if k == n-1 {
					break
				}
				for range rng.IntN(3) {
					i, came := rng.IntN(n), order[rng.IntN(k+1)]
					switch rng.IntN(5) {
					case 0, 1:
						ranks[i].moveTo(devices[rng.IntN(len(devices))])
						moves++
					case 2:
						value, words := int(rng.Uint32()>>2), rng.IntN(2*backend.Granule/4)
						both(came, func(r *spliceRank) {
							r.workBeside(func(st backend.Stream) {
								r.failOn(st.Fill(backend.Fill{Addr: r.at[other], Value: uint32(value), Element: 4, Width: uint64(words)}))
							})
						})
					case 3: // the bytes are undefined, and stay where they are
						r := ranks[came]
						r.workBeside(func(backend.Stream) {
							p, err := r.reachBytes(r.at[piece], r.size)
							r.failOn(err)
							_ = bytes.Count(p[0], []byte{1})
						})
					case 4:
						if seed%3 == 1 {
							_, err := ranks[i].cu.(backend.Sharer).Export(ranks[i].at[piece])
							ranks[i].failOn(err)
							m.apart[i] = true
						}
					}
				}
			}
			for i := range n {
				both(i, func(r *spliceRank) { r.takeTurn(step, func(*spliceRank) {}) })
			}
			wantSame(t, "after the all-reduce", ranks, quiet)
			clear(m.apart)
			for i, r := range ranks { // an exported allocation stays apart, but others do not
				for k := range r.at {
					if x, _ := r.ledger.At(r.at[k]); x.Share.Number != 0 {
						both(i, func(r *spliceRank) {
							r.takeTurn(step, func(r *spliceRank) {
								r.failOn(r.cu.Free(r.at[k]))
								r.failOn(r.Drain(r.Context()))
								var err error
								r.at[k], err = r.cu.Alloc(r.size)
								r.failOn(err)
							})
						})
					}
				}
			}
		}
		given += m.memory.given.Load()
		for _, r := range ranks {
			r.failOn(r.Close())
		}
		for i, d := range devices {
			swapped += d.Swapped().Out
			if n := d.common.Blocks(); n != 0 {
				t.Errorf("seed %d: %d common blocks of device %d are left", seed, n, i)
			}
		}
	}
	t.Logf("%d vectors were given up, ranks moved %d times, %d bytes left a device", given, moves, swapped)
	if given == 0 || moves == 0 || swapped == 0 {
		t.Errorf("%d vectors were given up, ranks moved %d times, %d bytes left a device", given, moves, swapped)
	}
}

// TestHalfMergedFails: an all-reduce of which vectors are added up already does not come to its end. Each rank that has
// come gets the error, only bytes that were given to the all-reduce have changed, its memory can be freed, and the ranks
// add up again in another communicator.
func TestHalfMergedFails(t *testing.T) {
	const n, edge = 4, 4096
	const words = (2*backend.Granule - edge) / 4 // with a single whole block
	for _, x := range []struct {
		name string
		end  func(m *halfMerged)
		gone int // the rank that ends; -1: all stay
	}{
		{"abort", func(m *halfMerged) { m.comm.Abort() }, -1},
		{"a rank comes to another operation", func(m *halfMerged) {
			op := collective.Op{Kind: collective.AllReduce, Type: collective.Float32, Count: 1, Send: make([]byte, 4), Recv: make([]byte, 4)}
			m.ranks[0].failOn(m.comm.Issue(3, []collective.Op{op}, func(error) {}))
		}, -1},
		{"a rank splits the communicator", func(m *halfMerged) {
			m.ranks[0].failOn(m.comm.Split(3, 0, 0, func(*collective.Comm, int, error) {}))
		}, -1},
		{"a rank leaves", func(m *halfMerged) { m.ranks[0].failOn(m.comm.Destroy(3)) }, -1},
		{"the rank with the sum dies", func(m *halfMerged) { m.ranks[0].endRank(m.comm) }, 0},
		{"the rank without its vector dies", func(m *halfMerged) { m.ranks[1].endRank(m.comm) }, 1},
		{"a rank that has not come dies", func(m *halfMerged) { m.ranks[3].endRank(m.comm) }, 3},
	} {
		t.Run(x.name, func(t *testing.T) {
			devices, ranks := newSpliceRanks(t, twoBlocks, n, 1, nil, noCheck)
			_, quiet := newSpliceRanks(t, twoBlocks, n, n, nil, noCheck)
			m := newHalfMerged(ranks)
			for i, r := range ranks {
				for _, r := range []*spliceRank{r, quiet[i]} {
					r.takeTurn(0, func(r *spliceRank) {
						for k, at := range r.at {
							r.fillPart(at, 100*r.rank+k+1, backend.Granule/2)
						}
					})
				}
			}
			for _, i := range []int{2, 0, 1} {
				m.giveVector(ranks[i], ranks[i].at[grads]+edge, words, func(*spliceRank) {})
			}
			if n := m.memory.given.Load(); n != 1 {
				t.Fatalf("%d vectors were given up, want 1", n)
			}
			x.end(m)
			<-m.comm.Done()
			for _, r := range ranks {
				r.takeTurn(1, func(*spliceRank) {})
			}
			refill := func(r *spliceRank) { r.fillPart(r.at[grads]+edge, 9*r.rank, words) }
			for i, r := range ranks {
				r.takeTurn(2, refill)
				quiet[i].takeTurn(2, refill)
			}
			wantSame(t, "after the failure", ranks, quiet)
			if x.gone < 0 {
				m.makeCommunicator("again")
				still := newHalfMerged(quiet)
				for i := range ranks {
					m.giveVector(ranks[i], ranks[i].at[grads]+edge, words, func(*spliceRank) {})
					still.giveVector(quiet[i], quiet[i].at[grads]+edge, words, func(*spliceRank) {})
				}
				for i := range ranks {
					ranks[i].takeTurn(3, func(*spliceRank) {})
					quiet[i].takeTurn(3, func(*spliceRank) {})
				}
				wantSame(t, "after another all-reduce", ranks, quiet)
				wantCommon(t, devices[0], "after another all-reduce", 1, n-1, 1)
			}
			freeMerged(t, devices, ranks)
		})
	}
}

// endRank ends a rank's space, as the end of its process does, and its communicator.
func (r *spliceRank) endRank(c *collective.Comm) {
	r.Helper()
	r.closed = true
	ended := make(chan error)
	go func() { ended <- r.Close() }()
	c.Abort()
	r.failOn(<-ended)
}

// givenBytes are the bytes of the rank's gradients without those at the edges.
func (r *spliceRank) givenBytes(edge backend.Addr, words uint64) []byte {
	r.Helper()
	p, err := r.reachBytes(r.at[grads]+edge, 4*words)
	r.failOn(err)
	return p[0]
}

// TestHalfMergedMisused: a program frees, or overwrites from the host or by a kernel, the vector that it has given to an all-reduce
// of which vectors are added up already. The buffer's bytes are undefined where the program overwrites them. All other
// bytes are those of undisturbed ranks, and so are the results where memory is only freed.
func TestHalfMergedMisused(t *testing.T) {
	const n, edge = 4, 4096
	const words = (2*backend.Granule - edge) / 4 // with a single whole block
	for _, x := range []struct {
		name  string
		do    func(r *spliceRank)
		frees bool
	}{
		{"free", func(r *spliceRank) {
			r.workBeside(func(backend.Stream) { r.failOn(r.cu.Free(r.at[grads])) })
		}, true},
		{"a stream frees", func(r *spliceRank) {
			r.workBeside(func(st backend.Stream) { r.failOn(st.FreeAsync(r.at[grads])) })
		}, true},
		{"the host writes", func(r *spliceRank) {
			r.workBeside(func(backend.Stream) {
				copy(r.givenBytes(edge, words)[words:], bytes.Repeat([]byte{5}, words))
			})
		}, false},
		{"a stream fills", func(r *spliceRank) {
			r.workBeside(func(st backend.Stream) {
				r.failOn(st.Fill(backend.Fill{Addr: r.at[grads] + edge, Value: 5, Element: 4, Width: words}))
			})
		}, false},
		{"a kernel writes", func(r *spliceRank) {
			r.workBeside(func(st backend.Stream) {
				r.runOn(st, "add", 1024, r.at[grads]+backend.Granule, 1)
			})
		}, false},
	} {
		for rank := range 2 { // has the sum of the two, or has given its memory up
			t.Run(fmt.Sprintf("%s, rank %d", x.name, rank), func(t *testing.T) {
				devices, ranks := newSpliceRanks(t, twoBlocks, n, 1, nil, noCheck)
				_, quiet := newSpliceRanks(t, twoBlocks, n, n, nil, noCheck)
				m, still := newHalfMerged(ranks), newHalfMerged(quiet)
				fill := func(r *spliceRank) {
					for k, at := range r.at {
						r.fillPart(at, 100*r.rank+k+1, backend.Granule/2)
					}
				}
				for i := range n {
					m.giveVector(ranks[i], ranks[i].at[grads]+edge, words, fill)
					still.giveVector(quiet[i], quiet[i].at[grads]+edge, words, fill)
					if i == 1 {
						x.do(ranks[rank])
					}
				}
				for i := range n {
					ranks[i].takeTurn(1, func(*spliceRank) {})
					quiet[i].takeTurn(1, func(*spliceRank) {})
				}
				if x.frees {
					quiet[rank].takeTurn(2, func(r *spliceRank) { r.failOn(r.cu.Free(r.at[grads])) })
					ranks[rank].at[grads] = 0
				} else {
					same := ranks[0].givenBytes(edge, words)
					for _, r := range ranks[1:] {
						if !bytes.Equal(r.givenBytes(edge, words), same) {
							t.Errorf("rank %d has another result than rank 0", r.rank)
						}
					}
					for i := range n {
						refill := func(r *spliceRank) { r.fillPart(r.at[grads]+edge, 9*r.rank, words) }
						ranks[i].takeTurn(2, refill)
						quiet[i].takeTurn(2, refill)
					}
				}
				wantSame(t, "after the all-reduce", ranks, quiet)
				freeMerged(t, devices, ranks)
			})
		}
	}
}
