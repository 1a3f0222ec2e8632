// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"fmt"
	"maps"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/backendtest"
)

// The programs are written to find wrong sharing: ranks that are almost alike. Each runs on a device that has room for
// a single rank, and with a device for each rank. A rank's memory is the blocks of its tenant: parameters, 2 of them,
// gradients, and two more.
const (
	parameters = backend.Addr(0)
	gradients  = backend.Addr(2 * backend.Granule)
	scratch    = backend.Addr(3 * backend.Granule)
	private    = backend.Addr(4 * backend.Granule)
)

// rankTurn is a rank in a step of a sharingProgram.
type rankTurn struct {
	*testing.T
	*tenant
	rank, step int
	module     backend.Module
	peers      []*tenant // the ranks of the job
	kept       map[string]backend.Addr
}

// failOn ends the test at an error.
func (r *rankTurn) failOn(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// fillBytes fills bytes.
func (r *rankTurn) fillBytes(at backend.Addr, v uint32, n uint64) {
	r.Helper()
	r.failOn(r.cu.Legacy().Fill(backend.Fill{Addr: r.at + at, Value: v, Element: 4, Width: n / 4}))
}

// launchKernel runs a kernel with a thread for each of n elements.
func (r *rankTurn) launchKernel(name string, n uint32, params []byte) {
	r.Helper()
	f, err := r.module.Function(name)
	r.failOn(err)
	r.failOn(r.cu.Legacy().Launch(backend.Launch{
		Function: f, Grid: backend.Dim{X: (n + 255) / 256, Y: 1, Z: 1}, Block: backend.Dim{X: min(n, 256), Y: 1, Z: 1}, Params: params,
	}))
}

// addTo adds v to n elements.
func (r *rankTurn) addTo(at backend.Addr, v, n uint32) {
	r.Helper()
	r.launchKernel("add", n, kernelParams(r.at+at, v))
}

// reduceBytes is a collective that writes a rank's bytes. The sum is known here.
func (r *rankTurn) reduceBytes(at backend.Addr, n uint64, sum byte) {
	r.Helper()
	done := make(chan struct{})
	r.failOn(r.cu.Legacy().Exchange([]backend.Buffer{{Addr: r.at + at, Size: n, Write: true}}, func(p [][]byte, over func(error)) {
		for i := range p[0] {
			p[0][i] = sum
		}
		over(nil)
		close(done)
	}))
	<-done
}

// sharingProgram is a program, and how many blocks are saved by common memory after its last step: 2 for each block
// that three ranks hold alike. The block with the variables of the module is alike too, unless a kernel writes a variable.
type sharingProgram struct {
	name  string
	saved uint64
	turn  func(*rankTurn)
}

var sharingPrograms = []sharingProgram{
	{"ranks that are alike", 2 * 5, func(r *rankTurn) {
		r.fillBytes(parameters, uint32(r.step), 2*backend.Granule)
		r.fillBytes(gradients, 7, backend.Granule)
		r.fillBytes(scratch, 9, backend.Granule)
	}},
	{"a learning rate for each rank", 2 * 2, func(r *rankTurn) {
		r.fillBytes(gradients, 7, backend.Granule)
		r.addTo(parameters, uint32(r.rank), 1024)
	}},
	{"a rank corrects the parameters and tells the others later", 2 * 3, func(r *rankTurn) {
		r.fillBytes(parameters, uint32(r.step/2), 2*backend.Granule)
		if r.rank == 0 && r.step%2 == 1 {
			r.addTo(parameters+backend.Granule-4, 1, 1)
		}
		r.reduceBytes(parameters, 64, byte(r.step))
		r.fillBytes(parameters, 3, 2*backend.Granule)
	}},
	{"alike for long, then not", 2 * 2, func(r *rankTurn) {
		r.fillBytes(parameters, 1, 2*backend.Granule)
		if r.step == 3 {
			r.addTo(parameters+4*backend.Addr(r.rank), 1, 1)
		}
	}},
	{"the update reads a variable of its module", 2 * 1, func(r *rankTurn) {
		r.fillBytes(gradients, 1, backend.Granule)
		for range r.rank {
			r.launchKernel("bump", 1, kernelParams(r.at+private, 0)[:8])
		}
		r.launchKernel("bump", 1, kernelParams(r.at+parameters, 0)[:8])
	}},
	{"the update follows a pointer in memory", 2 * 2, func(r *rankTurn) {
		r.fillBytes(gradients, 1, backend.Granule)
		to := r.at + private + 64
		r.fillBytes(private, uint32(to), 4)
		r.fillBytes(private+4, uint32(to>>32), 4)
		r.fillBytes(private+64, uint32(10+r.rank), 4)
		r.launchKernel("peek", 1, append(kernelParams(r.at+private, 0)[:8], kernelParams(r.at+parameters, 0)[:8]...))
	}},
	{"parameters that are freed and allocated again", 2 * 5, func(r *rankTurn) {
		if r.step == 2 {
			r.failOn(r.cu.Free(r.at))
			at, err := r.cu.Alloc(tenantSize)
			if err != nil || at != r.at {
				r.Fatalf("%#x %v", uint64(at), err)
			}
		}
		r.fillBytes(parameters, uint32(r.step), 2*backend.Granule)
		r.addTo(gradients, 1, 1024)
		r.addTo(scratch, 1, 1024)
	}},
	{"sizes that differ by rank", 2 * 1, func(r *rankTurn) {
		if a := r.kept["activations"]; a != 0 {
			r.failOn(r.cu.Free(a))
		}
		at, err := r.cu.Alloc(uint64(r.rank+1) << 19)
		r.failOn(err)
		r.kept["activations"] = at
		r.failOn(r.cu.Legacy().Fill(backend.Fill{Addr: at, Value: 5, Element: 1, Width: uint64(r.rank+1) << 19}))
		r.fillBytes(parameters, 8, backend.Granule)
	}},
	{"nothing is alike", 2 * 1, func(r *rankTurn) { r.fillBytes(0, uint32(100*r.rank+r.step), tenantSize) }},
	{"scratch that the next step reads", 2 * 3, func(r *rankTurn) {
		r.failOn(r.cu.Legacy().Copy(backend.Copy{
			Src: backend.CopySide{Addr: uint64(r.at + scratch)}, Dst: backend.CopySide{Addr: uint64(r.at + gradients)}, Width: backend.Granule,
		}))
		r.fillBytes(parameters, 6, 2*backend.Granule)
		r.fillBytes(scratch, uint32(10*r.step+r.rank), backend.Granule)
	}},
	{"memory of VMM that is mapped twice", 2 * 3, func(r *rankTurn) {
		if r.step == 0 {
			base, err := r.Reserve(2*backend.Granule, 0, 0)
			r.failOn(err)
			id, err := r.NewMemory(backend.Granule)
			r.failOn(err)
			for i := range backend.Addr(2) {
				r.failOn(r.MapMemory(base+i*backend.Granule, backend.Granule, 0, id))
			}
			r.failOn(r.SetAccess(base, 2*backend.Granule, true))
			r.kept["mapped"] = base
		}
		at := r.kept["mapped"] - r.at
		r.fillBytes(at, uint32(r.step), backend.Granule)
		r.addTo(at+backend.Granule, uint32(r.rank*(r.step%2)), 1) // the same memory
		r.fillBytes(parameters, 2, 2*backend.Granule)
	}},
	{"a peer's memory", 2*2 + 1, func(r *rankTurn) {
		r.fillBytes(parameters, 2, 2*backend.Granule) // over a peer's bytes, except in the first rank
		r.fillBytes(private, uint32(10+r.rank), 64)
		next := r.peers[(r.rank+1)%len(r.peers)]
		r.failOn(r.cu.Legacy().Copy(backend.Copy{
			Src: backend.CopySide{Addr: uint64(r.at + private)}, Width: 64,
			Dst: backend.CopySide{Space: next.space, Addr: uint64(next.at + parameters + backend.Addr(4096*(1+r.rank)))},
		}))
		r.fillBytes(gradients, 1, backend.Granule)
		r.addTo(gradients, uint32(r.rank), 1)
	}},
}

// programRun is a program under way: ranks on devices.
type programRun struct {
	devices []*device
	turns   []*rankTurn
}

// newProgramRun makes ranks, all on a device or each on its own. Devices have memory for a single rank and a half.
// splice: they have the same addresses, and kernels that are alike run once.
func newProgramRun(t *testing.T, ranks int, together, splice bool) *programRun {
	n := ranks
	if together {
		n = 1
	}
	cfg := Config{Splice: splice}
	for range n {
		cfg.Memory = append(cfg.Memory, deviceSize)
	}
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	out := &programRun{}
	for _, d := range b.Devices() {
		out.devices = append(out.devices, d.(*device))
	}
	var peers []*tenant
	for i := range ranks {
		base := backend.DefaultBase * backend.Addr(i+1)
		if splice {
			base = backend.DefaultBase
		}
		s, err := b.Devices()[i%n].NewSpace(backend.SpaceConfig{Base: base})
		if err != nil {
			t.Fatal(err)
		}
		x := &tenant{space: s.(*space)}
		r := &rankTurn{T: t, tenant: x, rank: i, kept: map[string]backend.Addr{}}
		x.cu, err = s.NewContext(0)
		r.failOn(err)
		x.at, err = x.cu.Alloc(tenantSize)
		r.failOn(err)
		r.module, _, err = x.cu.Load([]byte(backendtest.Kernels), backend.LoadConfig{})
		r.failOn(err)
		peers, out.turns = append(peers, x), append(out.turns, r)
	}
	for _, r := range out.turns {
		r.peers = peers
	}
	return out
}

// TestSharingPrograms: ranks that share a device and its memory hold the same bytes as ranks with devices of their own;
// and all memory that can be common is common.
func TestSharingPrograms(t *testing.T) {
	for _, p := range sharingPrograms {
		for _, splice := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/splice=%t", p.name, splice), func(t *testing.T) { checkSharing(t, &p, splice) })
		}
	}
}

func checkSharing(t *testing.T, p *sharingProgram, splice bool) {
	const ranks, steps = 3, 4
	shared, apart := newProgramRun(t, ranks, true, splice), newProgramRun(t, ranks, false, splice)
	for step := range steps {
		for i := range ranks {
			for _, run := range []*programRun{shared, apart} {
				r := run.turns[i]
				r.step = step
				r.takeTurn(t, func() { p.turn(r) })
			}
		}
		for i := range ranks {
			if a, b := shared.turns[i].hashBlocks(t, 3), apart.turns[i].hashBlocks(t, 3); !maps.Equal(a, b) {
				t.Fatalf("step %d: rank %d has %v, on a device of its own %v", step, i, a, b)
			}
		}
	}
	shared.turns[0].takeTurn(t, func() {}) // the last rank leaves
	if c := shared.devices[0].Common(); c.Saved != p.saved*backend.Granule {
		t.Errorf("%d blocks are saved, want %d: %+v", c.Saved/backend.Granule, p.saved, c)
	}
}

// TestRankIsGone: the end of a rank leaves the bytes of the ranks that had memory in common with it.
func TestRankIsGone(t *testing.T) {
	run := newProgramRun(t, 3, true, false)
	for _, r := range run.turns {
		r.takeTurn(t, func() { sharingPrograms[0].turn(r) })
	}
	run.turns[0].takeTurn(t, func() {}) // the last rank leaves
	if c := run.devices[0].Common(); c.Saved == 0 {
		t.Fatalf("before the rank ends, Saved = 0, want memory in common: %+v", c)
	}
	before := []map[backend.BlockID]backend.Hash{run.turns[0].hashBlocks(t, 1), nil, run.turns[2].hashBlocks(t, 1)}
	if err := run.turns[1].Close(); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{2, 0, 2} {
		r := run.turns[i]
		r.takeTurn(t, func() {})
		if !maps.Equal(r.hashBlocks(t, 1), before[i]) {
			t.Errorf("rank %d has lost its bytes", i)
		}
	}
}
