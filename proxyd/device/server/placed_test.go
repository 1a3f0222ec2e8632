// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// troupe is two processes with two devices each, and a single communicator of the four. All their steps are possible on
// any devices.
type troupe struct {
	r   *rand.Rand
	all []*player
}

// player is a process with its devices' contexts, memory, streams and events, and a graph on the first that waits for the second.
type player struct {
	*client
	memory [2]uint64
	large  [2]uint64
	exec   uint64
	waited uint32
}

var (
	troupeContexts = [2]uint64{ctxA, ctxB}
	troupeStreams  = [2]uint64{streamA, streamB}
	troupeEvents   = [2]uint64{eventA, eventB}
	troupeComms    = [2]uint64{0x70001, 0x70002}
)

// Parts of each device's memory: written by the default stream, written by the other stream, sums, and a flag.
const (
	areaOther = 64
	areaSums  = 128
	areaFlag  = 192
	areaEnd   = 256
)

func newTroupe(t *testing.T, s *Server, seed uint64) *troupe {
	w := &troupe{r: rand.New(rand.NewPCG(seed, 5))}
	var id [128]byte
	for n := range 2 {
		_, cs := attachProcess(t, s, 1)
		p := &player{client: cs[0]}
		w.all = append(w.all, p)
		for d := range 2 {
			p.beginContext(troupeContexts[d], int32(2*n+d)%int32(len(s.devices)))
			p.memory[d], p.large[d] = p.alloc(areaEnd), p.alloc(backend.Granule)
			p.must("cuStreamCreate", troupeStreams[d], uint32(1))
			p.must("cuEventCreate", troupeEvents[d], uint32(2))
			if n == 0 && d == 0 {
				id = [128]byte(p.must("ncclGetUniqueId"))
			}
			p.init(troupeComms[d], 4, 2*n+d, id)
		}
		p.context = ctxA
		p.must("cuGraphCreate", uint64(graphA), uint32(0))
		p.must("cuGraphAddEventWaitNode", joinLists([]any{uint64(nodeA), uint64(graphA)}, dependencyList(), []any{uint64(eventB)})...)
		set := [5]uint64{p.memory[0] + areaOther, 0, 7 | 4<<32, 4, 1} // CUDA_MEMSET_NODE_PARAMS
		p.must("cuGraphAddMemsetNode", joinLists([]any{uint64(nodeA + 1), uint64(graphA)}, dependencyList(nodeA), []any{set, uint64(ctxA)})...)
		p.exec = u64(p.must("graph_instantiate", uint64(graphA), paramsWithFlags(0), uint32(256))[8:])
	}
	for _, p := range w.all {
		for _, comm := range troupeComms {
			if state, _, _, _ := p.waitForState(comm); state != 0 {
				t.Fatalf("state of communicator %#x = %v, want 0", comm, state)
			}
		}
	}
	return w
}

// playStep takes a step that is possible on all placements.
func (w *troupe) playStep() {
	p, d := w.all[w.r.IntN(2)], w.r.IntN(2)
	o := 1 - d
	p.context = troupeContexts[d]
	switch w.r.IntN(9) {
	case 0, 1:
		p.post("cuMemsetD32Async", p.memory[d]+4*w.r.Uint64N(8), w.r.Uint32(), uint64(8), uint64(0))
	case 2:
		p.post("cuMemcpyPeer", p.memory[d], troupeContexts[d], p.memory[o]+32, troupeContexts[o], uint64(32))
	case 3: // the other device goes on when this device is there
		p.post("cuMemsetD32Async", p.memory[d]+areaOther, w.r.Uint32(), uint64(16), troupeStreams[d])
		p.post("cuEventRecord", troupeEvents[d], troupeStreams[d])
		p.context = troupeContexts[o]
		p.post("cuStreamWaitEvent", troupeStreams[o], troupeEvents[d], uint32(0))
		p.post("cuMemcpyPeerAsync", p.memory[o]+areaOther+32, troupeContexts[o], p.memory[d]+areaOther, troupeContexts[d], uint64(16), troupeStreams[o])
	case 4: // a graph that waits for the other device's work first
		p.post("cuEventRecord", uint64(eventB), uint64(streamB))
		p.context = ctxA
		p.post("graph_launch", p.exec, uint64(streamA))
	case 5:
		w.addUp()
	case 6: // the device only waits, and then writes the awaited value itself
		p.waited++
		p.post("cuStreamWaitValue32_v2", troupeStreams[d], p.memory[d]+areaFlag, p.waited, uint32(0))
		p.post("cuMemsetD8Async", p.memory[d]+areaOther+48, uint8(w.r.Uint32()), uint64(16), troupeStreams[d])
		w.addUp()
		p.context = troupeContexts[d]
		p.post("cuStreamWriteValue32_v2", uint64(0), p.memory[d]+areaFlag, p.waited, uint32(0))
	case 7:
		p.post("cuMemsetD32Async", p.large[d], w.r.Uint32(), uint64(backend.Granule/4), uint64(0))
	case 8:
		p.must("cuCtxSynchronize")
	}
}

// addUp has all ranks add their values.
func (w *troupe) addUp() {
	for _, i := range w.r.Perm(2) {
		p := w.all[i]
		p.context = ctxA
		var ops []dispatch.Ncclop
		for d, comm := range troupeComms {
			ops = append(ops, dispatch.Ncclop{
				Kind: int32(collective.AllReduce), Type: ncclInt32, Count: 16,
				Src: dispatch.Devptr(p.memory[d]), Dst: dispatch.Devptr(p.memory[d] + areaSums), Comm: dispatch.Comm(comm),
			})
		}
		p.issueGroup(ops...)
	}
}

// playSteps does so many steps and returns all memory.
func (w *troupe) playSteps(steps int) []byte {
	for range steps {
		w.playStep()
	}
	var out []byte
	for _, p := range w.all {
		for d := range 2 {
			p.context = troupeContexts[d]
			p.must("cuCtxSynchronize")
			out = append(out, p.readBytes(p.memory[d], areaFlag)...)
			out = append(out, p.readBytes(p.large[d]+backend.Granule-64, 64)...)
		}
	}
	return out
}

// TestPlaced: the work of processes is done, and comes out the same, on any placement of their four devices: no process
// waits for a process that is on its own device and cannot run there. A device has room for a single space.
func TestPlaced(t *testing.T) {
	seeds := uint64(6)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		var want []byte
		for _, order := range [][]int{{0, 1, 2, 3}, {0, 0, 1, 1}, {1, 0, 0, 1}, {0, 0, 0, 0}, {2, 1, 0, 0}} {
			const room = 3 * backend.Granule
			s := serverOf(t, "test", order, room, room, room, room)
			got := newTroupe(t, s, seed).playSteps(60)
			if want == nil {
				want = got
			}
			if !slices.Equal(got, want) || len(bytes.Trim(got, "\x00")) == 0 {
				t.Errorf("seed %d, devices on %v: other bytes than on %v", seed, order, []int{0, 1, 2, 3})
			}
			swap := s.cfg.Backend.Devices()[0].(backend.Swapper).Swapped()
			if swap.Most > room || (swap.Out > 0) != (order[2] == 0 || order[1] == 0) {
				t.Errorf("seed %d, devices on %v: %+v", seed, order, swap)
			}
		}
	}
}

// TestPlacedTwins: a program with two devices is moved to a single device, to two devices, and so on.
func TestPlacedTwins(t *testing.T) {
	w := &twin{t: t, r: rand.New(rand.NewPCG(1, 8))}
	_, quiet := attachProcess(t, serverOf(t, "test", nil, testMemory, testMemory), 1)
	s := serverOf(t, "test", nil, testMemory, testMemory)
	_, moved := attachProcess(t, s, 1)
	w.c = [2]*client{quiet[0], moved[0]}
	folder, last := Folder(t.TempDir()), ""
	for i, order := range [][]int{{0, 0}, {1, 0}, nil, {1, 1}} {
		for range 60 {
			w.playStep()
		}
		o := SaveOptions{}
		if i%2 == 1 {
			o.Upon = last
		}
		r := saveJob(t, s, folder, o)
		last = r.ID
		devices := []uint64{testMemory, testMemory}
		if order == nil {
			devices = devices[1:] // the job is spread over the devices there are
		}
		next := serverOf(t, fmt.Sprint("other ", i), order, devices...)
		replaceServer(t, s, r, folder, next)
		s = next
	}
	for range 60 {
		w.playStep()
	}
}
