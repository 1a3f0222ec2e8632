// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// familyKernels launch kernels by their threads, by the calls that CUDA's device runtime makes of the driver.
const familyKernels = `
.version 8.4
.target sm_80
.address_size 64
.extern .func (.param .b64 r) __cuda_syscall_cnpv2GetParameterBuffer(.param .b32 align, .param .b32 size);
.extern .func (.param .b64 r) __cuda_syscall_cnpv2GetParameterBufferV2(.param .b64 f, .param .align 4 .b8 g[12], .param .align 4 .b8 b[12], .param .b32 s);
.extern .func (.param .b32 r) __cuda_syscall_cnpv2LaunchDevice(.param .b64 f, .param .b64 buf, .param .b64 g, .param .b64 b, .param .b32 s, .param .b64 stream);
.extern .func (.param .b32 r) __cuda_syscall_cnpv2LaunchDeviceV2(.param .b64 buf, .param .b64 stream);
.extern .func (.param .b32 r) __cuda_syscall_cnpv2GetLastError();
.extern .func (.param .b32 r) __cuda_syscall_cnpv2SetLastError(.param .b32 e);
.extern .func (.param .b32 r) __cuda_syscall_cnpv2StreamCreate(.param .b64 p, .param .b32 flags);
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.global .align 1 .b8 format[4] = {37, 100, 32, 0};
.global .align 8 .u64 table[2] = {leaf, fault};

// launchOf launches f with a grid and a block of one dimension, for the kernels here. It returns the code of the launch, or
// 100 + the thread's last error where there is no buffer.
.func (.param .b32 r) launchOf(.param .b64 f, .param .b32 grid, .param .b32 block, .param .b32 shared, .param .b64 stream,
	.param .b64 log, .param .b32 id, .param .b32 depth)
{
	.reg .pred %p; .reg .b32 %r<9>; .reg .b64 %rd<5>;
	ld.param.u64 %rd1, [f]; ld.param.u32 %r1, [grid]; ld.param.u32 %r2, [block]; ld.param.u32 %r3, [shared];
	ld.param.u64 %rd2, [stream]; ld.param.u64 %rd3, [log]; ld.param.u32 %r4, [id]; ld.param.u32 %r5, [depth];
	{
		.param .b64 p0; .param .align 4 .b8 p1[12]; .param .align 4 .b8 p2[12]; .param .b32 p3; .param .b64 q;
		st.param.b64 [p0], %rd1; st.param.b32 [p1], %r1; st.param.b32 [p1+4], 1; st.param.b32 [p1+8], 1;
		st.param.b32 [p2], %r2; st.param.b32 [p2+4], 1; st.param.b32 [p2+8], 1; st.param.b32 [p3], %r3;
		call.uni (q), __cuda_syscall_cnpv2GetParameterBufferV2, (p0, p1, p2, p3);
		ld.param.b64 %rd4, [q];
	}
	setp.ne.u64 %p, %rd4, 0;
	@%p bra HAVE;
	{ .param .b32 q; call.uni (q), __cuda_syscall_cnpv2GetLastError, (); ld.param.b32 %r6, [q]; }
	add.u32 %r6, %r6, 100;
	st.param.b32 [r], %r6;
	ret;
HAVE:
	st.u64 [%rd4], %rd3; st.u32 [%rd4+8], %r4; st.u32 [%rd4+12], %r5;
	{
		.param .b64 p0; .param .b64 p1; .param .b32 q;
		st.param.b64 [p0], %rd4; st.param.b64 [p1], %rd2;
		call.uni (q), __cuda_syscall_cnpv2LaunchDeviceV2, (p0, p1);
		ld.param.b32 %r6, [q];
	}
	st.param.b32 [r], %r6;
	ret;
}

.func note(.param .b64 log, .param .b32 word)
{
	.reg .b32 %r<3>; .reg .b64 %rd<3>;
	ld.param.u64 %rd1, [log]; ld.param.u32 %r1, [word];
	atom.global.add.u32 %r2, [%rd1], 1;
	mul.wide.u32 %rd2, %r2, 4;
	add.u64 %rd2, %rd1, %rd2;
	st.global.u32 [%rd2+4], %r1;
	ret;
}

// node has each block note 4 * id + block, and each thread t launch a node of id * 8 + 4 * block + t, unless depth is 0:
// thread 0 in the block's own stream, thread 1 to be forgotten, thread 2 as a tail launch.
.visible .entry node(.param .u64 log, .param .u32 id, .param .u32 depth)
{
	.reg .pred %p<3>; .reg .b32 %r<12>; .reg .b64 %rd<6>;
	ld.param.u64 %rd1, [log]; ld.param.u32 %r1, [id]; ld.param.u32 %r2, [depth];
	mov.u32 %r3, %tid.x; mov.u32 %r4, %ctaid.x;
	shl.b32 %r5, %r1, 2; add.u32 %r5, %r5, %r4;
	setp.ne.u32 %p1, %r3, 0;
	@%p1 bra LAUNCH;
	{ .param .b64 p0; .param .b32 p1; st.param.b64 [p0], %rd1; st.param.b32 [p1], %r5; call.uni note, (p0, p1); }
LAUNCH:
	setp.eq.u32 %p2, %r2, 0;
	@%p2 ret;
	sub.u32 %r2, %r2, 1;
	shl.b32 %r6, %r1, 3; mad.lo.u32 %r6, %r4, 4, %r6; add.u32 %r6, %r6, %r3;
	mov.u64 %rd2, node;
	mov.u32 %r7, 2; mov.u32 %r8, 3; mov.u32 %r9, 0;
	mov.u64 %rd3, 0;
	setp.eq.u32 %p1, %r3, 1; @%p1 mov.u64 %rd3, 4;
	setp.eq.u32 %p1, %r3, 2; @%p1 mov.u64 %rd3, 3;
	{
		.param .b64 p0; .param .b32 p1; .param .b32 p2; .param .b32 p3; .param .b64 p4; .param .b64 p5; .param .b32 p6; .param .b32 p7; .param .b32 q;
		st.param.b64 [p0], %rd2; st.param.b32 [p1], %r7; st.param.b32 [p2], %r8; st.param.b32 [p3], %r9; st.param.b64 [p4], %rd3;
		st.param.b64 [p5], %rd1; st.param.b32 [p6], %r6; st.param.b32 [p7], %r2;
		call (q), launchOf, (p0, p1, p2, p3, p4, p5, p6, p7);
	}
	ret;
}

// deep launches itself, in a stream of its own, until that fails, and then notes the code. Its depth counts up.
.visible .entry deep(.param .u64 log, .param .u32 id, .param .u32 depth)
{
	.local .align 8 .b8 handle[8];
	.reg .pred %p; .reg .b32 %r<6>; .reg .b64 %rd<4>;
	ld.param.u64 %rd1, [log]; ld.param.u32 %r1, [id]; ld.param.u32 %r2, [depth];
	mov.u64 %rd2, handle; cvta.local.u64 %rd2, %rd2;
	{ .param .b64 p0; .param .b32 p1; .param .b32 q; st.param.b64 [p0], %rd2; st.param.b32 [p1], 1; call.uni (q), __cuda_syscall_cnpv2StreamCreate, (p0, p1); }
	ld.local.u64 %rd3, [handle];
	mov.u64 %rd2, deep; mov.u32 %r4, 1; add.u32 %r5, %r2, 1;
	{
		.param .b64 p0; .param .b32 p1; .param .b32 p2; .param .b32 p3; .param .b64 p4; .param .b64 p5; .param .b32 p6; .param .b32 p7; .param .b32 q;
		st.param.b64 [p0], %rd2; st.param.b32 [p1], %r4; st.param.b32 [p2], %r4; st.param.b32 [p3], 0; st.param.b64 [p4], %rd3;
		st.param.b64 [p5], %rd1; st.param.b32 [p6], %r1; st.param.b32 [p7], %r5;
		call.uni (q), launchOf, (p0, p1, p2, p3, p4, p5, p6, p7);
		ld.param.b32 %r3, [q];
	}
	setp.eq.u32 %p, %r3, 0;
	@%p ret;
	mad.lo.u32 %r3, %r2, 1000, %r3;
	{ .param .b64 p0; .param .b32 p1; st.param.b64 [p0], %rd1; st.param.b32 [p1], %r3; call.uni note, (p0, p1); }
	ret;
}

// chain launches itself behind itself, depth times.
.visible .entry chain(.param .u64 log, .param .u32 id, .param .u32 depth)
{
	.reg .pred %p; .reg .b32 %r<6>; .reg .b64 %rd<4>;
	ld.param.u64 %rd1, [log]; ld.param.u32 %r1, [id]; ld.param.u32 %r2, [depth];
	{ .param .b64 p0; .param .b32 p1; st.param.b64 [p0], %rd1; st.param.b32 [p1], %r2; call.uni note, (p0, p1); }
	setp.eq.u32 %p, %r2, 0;
	@%p ret;
	mov.u64 %rd2, chain; mov.u32 %r4, 1; sub.u32 %r5, %r2, 1; mov.u64 %rd3, 3;
	{
		.param .b64 p0; .param .b32 p1; .param .b32 p2; .param .b32 p3; .param .b64 p4; .param .b64 p5; .param .b32 p6; .param .b32 p7; .param .b32 q;
		st.param.b64 [p0], %rd2; st.param.b32 [p1], %r4; st.param.b32 [p2], %r4; st.param.b32 [p3], 0; st.param.b64 [p4], %rd3;
		st.param.b64 [p5], %rd1; st.param.b32 [p6], %r1; st.param.b32 [p7], %r5;
		call.uni (q), launchOf, (p0, p1, p2, p3, p4, p5, p6, p7);
	}
	ret;
}

// leaf notes its id, and prints it.
.visible .entry leaf(.param .u64 log, .param .u32 id, .param .u32 depth)
{
	.local .align 8 .b8 args[8];
	.reg .b32 %r<3>; .reg .b64 %rd<4>;
	ld.param.u64 %rd1, [log]; ld.param.u32 %r1, [id];
	{ .param .b64 p0; .param .b32 p1; st.param.b64 [p0], %rd1; st.param.b32 [p1], %r1; call.uni note, (p0, p1); }
	st.local.u32 [args], %r1;
	mov.u64 %rd2, args; cvta.local.u64 %rd2, %rd2;
	mov.u64 %rd3, format; cvta.global.u64 %rd3, %rd3;
	{ .param .b64 p0; .param .b64 p1; .param .b32 q; st.param.b64 [p0], %rd3; st.param.b64 [p1], %rd2; call.uni (q), vprintf, (p0, p1); }
	ret;
}

.visible .entry fault(.param .u64 log, .param .u32 id, .param .u32 depth)
{
	.reg .b64 %rd<2>; .reg .b32 %r<2>;
	mov.u64 %rd1, 4096; mov.u32 %r1, 1;
	st.global.u32 [%rd1], %r1;
	ret;
}

// tell has each thread launch a kernel of table, or the function at 5 if which is not below 2, and note 1000 * thread + the code.
.visible .entry tell(.param .u64 log, .param .u32 which, .param .u32 grid, .param .u32 block, .param .u32 shared)
{
	.reg .pred %p; .reg .b32 %r<12>; .reg .b64 %rd<6>;
	ld.param.u64 %rd1, [log]; ld.param.u32 %r1, [which]; ld.param.u32 %r2, [grid]; ld.param.u32 %r3, [block]; ld.param.u32 %r4, [shared];
	mov.u32 %r5, %tid.x;
	mov.u64 %rd2, 5;
	setp.ge.u32 %p, %r1, 2;
	@%p bra GO;
	mov.u64 %rd3, table; mul.wide.u32 %rd4, %r1, 8; add.u64 %rd3, %rd3, %rd4; ld.global.u64 %rd2, [%rd3];
GO:
	{
		.param .b64 p0; .param .b32 p1; .param .b32 p2; .param .b32 p3; .param .b64 p4; .param .b64 p5; .param .b32 p6; .param .b32 p7; .param .b32 q;
		st.param.b64 [p0], %rd2; st.param.b32 [p1], %r2; st.param.b32 [p2], %r3; st.param.b32 [p3], %r4; st.param.b64 [p4], 0;
		st.param.b64 [p5], %rd1; st.param.b32 [p6], %r5; st.param.b32 [p7], 0;
		call (q), launchOf, (p0, p1, p2, p3, p4, p5, p6, p7);
		ld.param.b32 %r6, [q];
	}
	mad.lo.u32 %r6, %r5, 1000, %r6;
	{ .param .b64 p0; .param .b32 p1; st.param.b64 [p0], %rd1; st.param.b32 [p1], %r6; call note, (p0, p1); }
	ret;
}

// first is the first form of a launch: of a leaf, by its address, with the buffer apart from the launch.
.visible .entry first(.param .u64 log, .param .u32 id)
{
	.local .align 4 .b8 dims[12];
	.reg .b32 %r<4>; .reg .b64 %rd<6>;
	ld.param.u64 %rd1, [log]; ld.param.u32 %r1, [id];
	mov.u32 %r2, 1;
	st.local.u32 [dims], %r2; st.local.u32 [dims+4], %r2; st.local.u32 [dims+8], %r2;
	mov.u64 %rd2, dims; cvta.local.u64 %rd2, %rd2;
	{ .param .b32 p0; .param .b32 p1; .param .b64 q; st.param.b32 [p0], 64; st.param.b32 [p1], 16;
	  call.uni (q), __cuda_syscall_cnpv2GetParameterBuffer, (p0, p1); ld.param.b64 %rd3, [q]; }
	st.u64 [%rd3], %rd1; st.u32 [%rd3+8], %r1; st.u32 [%rd3+12], %r2;
	mov.u64 %rd4, leaf;
	{ .param .b64 p0; .param .b64 p1; .param .b64 p2; .param .b64 p3; .param .b32 p4; .param .b64 p5; .param .b32 q;
	  st.param.b64 [p0], %rd4; st.param.b64 [p1], %rd3; st.param.b64 [p2], %rd2; st.param.b64 [p3], %rd2; st.param.b32 [p4], 0; st.param.b64 [p5], 0;
	  call.uni (q), __cuda_syscall_cnpv2LaunchDevice, (p0, p1, p2, p3, p4, p5); ld.param.b32 %r3, [q]; }
	{ .param .b64 p0; .param .b32 p1; st.param.b64 [p0], %rd1; st.param.b32 [p1], %r3; call.uni note, (p0, p1); }
	ret;
}
`

// familyRig is a space with familyKernels and a list of noted words.
type familyRig struct {
	*testing.T
	space   *space
	cu      backend.Context
	module  backend.Module
	log     backend.Addr
	printed strings.Builder
}

const logSize = 64 << 10

// newFamilyRig makes a rig. With a state, the space is like the state's.
func newFamilyRig(t *testing.T, from *familyRig) *familyRig {
	t.Helper()
	r := &familyRig{T: t}
	b, err := New(Config{Memory: []uint64{64 << 20}, Workers: 1, Interpret: from != nil})
	r.failOn(err)
	t.Cleanup(func() { b.Close() })
	cfg := backend.SpaceConfig{Output: func(_ int, text []byte) { r.printed.Write(text) }}
	load := backend.LoadConfig{}
	if from != nil {
		cfg.State = from.space.State()
		load.Globals = from.module.Variables().Base
	}
	r.addSpace(b.Devices()[0], cfg)
	if from != nil {
		r.log = from.log
		r.copyMemory(from, from.log)
		r.copyMemory(from, load.Globals)
	}
	r.loadKernels(load)
	return r
}

// addSpace makes the rig's space, with a context.
func (r *familyRig) addSpace(d backend.Device, cfg backend.SpaceConfig) {
	r.Helper()
	s, err := d.NewSpace(cfg)
	r.failOn(err)
	r.space = s.(*space)
	r.failOn(s.Map())
	r.cu, err = s.NewContext(1)
	r.failOn(err)
}

// loadKernels loads familyKernels, and allocates the list of words unless that is there.
func (r *familyRig) loadKernels(load backend.LoadConfig) {
	r.Helper()
	m, log, err := r.cu.Load([]byte(familyKernels), load)
	if err != nil {
		r.Fatalf("%v\n%s", err, log.Error)
	}
	if r.module = m; r.log == 0 {
		r.log, err = r.cu.Alloc(logSize)
		r.failOn(err)
	}
}

func (r *familyRig) failOn(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// copyMemory copies the block of memory at an address from another rig.
func (r *familyRig) copyMemory(from *familyRig, a backend.Addr) {
	r.Helper()
	p, id := make([]byte, backend.Granule), backend.BlockID{Base: a &^ (backend.Granule - 1)}
	some, err := from.space.ReadBlock(id, p)
	r.failOn(err)
	if some {
		r.failOn(r.space.WriteBlock(id, p))
	}
}

// launchOf is a launch of a kernel, with the log and numbers as parameters.
func (r *familyRig) launchOf(kernel string, grid, block uint32, numbers ...uint32) backend.Launch {
	r.Helper()
	f, err := r.module.Function(kernel)
	r.failOn(err)
	p := binary.LittleEndian.AppendUint64(nil, uint64(r.log))
	for _, n := range numbers {
		p = binary.LittleEndian.AppendUint32(p, n)
	}
	return backend.Launch{Function: f, Grid: backend.Dim{X: grid, Y: 1, Z: 1}, Block: backend.Dim{X: block, Y: 1, Z: 1}, Params: p}
}

// runLaunch runs a launch to its end, and returns the words that were noted in all.
func (r *familyRig) runLaunch(l backend.Launch) []uint32 {
	r.Helper()
	r.failOn(r.cu.Legacy().Launch(l))
	r.failOn(r.cu.Synchronize(r.Context()))
	return r.noted()
}

// noted returns the noted words.
func (r *familyRig) noted() []uint32 {
	r.Helper()
	b, err := r.space.table.viewBytes(r.log, logSize)
	r.failOn(err)
	n := binary.LittleEndian.Uint32(b[0])
	out := make([]uint32, n)
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(b[0][4+4*i:])
	}
	return out
}

// noteNodes returns the numbers that the kernel node notes, computed in the simplest way.
func noteNodes(id, depth uint32, out []uint32) []uint32 {
	var tails []uint32
	for block := range uint32(2) {
		out = append(out, 4*id+block)
		if depth == 0 {
			continue
		}
		for t := range uint32(3) {
			child := 8*id + 4*block + t
			if t == 2 {
				tails = append(tails, child)
				continue
			}
			out = noteNodes(child, depth-1, out)
		}
	}
	for _, child := range tails {
		out = noteNodes(child, depth-1, out)
	}
	return out
}

// TestFamilyIsSaved: a launch with threads that launch kernels is interrupted after each of its parts, goes on in a copy of the
// space, and has the same result, to the bit.
func TestFamilyIsSaved(t *testing.T) {
	const depth = 2
	want := noteNodes(1, depth, nil)
	r := newFamilyRig(t, nil)
	f := r.beginParts(r.launchOf("node", 2, 3, 1, depth))
	parts, saved := 0, 0
	for ; len(f.tree.stack) > 0; parts++ {
		var done backend.PartialKernel
		f.tree.describeIn(&done)
		if done.Launches != "" {
			saved++
		}
		if !testing.Short() || parts%9 == 0 {
			o := newFamilyRig(t, r)
			l := o.launchOf("node", 2, 3, 1, depth)
			l.Done = done
			if got := o.runLaunch(l); !slices.Equal(got, want) {
				t.Fatalf("saved after part %d as %+v:\nnoted %v\nwant  %v", parts, done, got, want)
			}
			r.failOn(o.space.Close())
		}
		f.runPart()
	}
	if got := r.noted(); !slices.Equal(got, want) {
		t.Errorf("noted part by part %v, want %v", got, want)
	}
	if parts < len(want) || saved < parts/2 {
		t.Errorf("%d parts for %d blocks, %d of them with launches by threads", parts, len(want), saved)
	}
}

// familyParts runs a launch part by part: a part ends with each block, as if the space was paused all the time.
type familyParts struct {
	*familyRig
	run  launch
	tree *gridTree
}

func (r *familyRig) beginParts(l backend.Launch) *familyParts {
	r.Helper()
	f := l.Function.(*function)
	p := &familyParts{familyRig: r, run: launch{
		grid: l.Grid, block: l.Block, params: l.Params, memory: r.space.table.engine, workers: 1, output: &kernelOutput{space: r.space},
		family: &family{module: f.module, name: f.name, pending: 2048}, issued: &r.space.device.issued,
	}}
	var err error
	p.tree, err = p.run.family.makeTree(&p.run, backend.PartialKernel{})
	r.failOn(err)
	p.run.record = p.tree.recordChild
	return p
}

func (p *familyParts) runPart() {
	p.Helper()
	began := false
	p.run.paused = func() bool { was := began; began = true; return was }
	p.failOn(p.tree.runNextPart(p.space, p.run))
}

// TestFamilyIsPaused: when a space is paused during a launch with threads that launch kernels, the stream tells how much of
// the launch is done, and the launch goes on from there.
func TestFamilyIsPaused(t *testing.T) {
	const depth = 4
	want := noteNodes(1, depth, nil)
	r := newFamilyRig(t, nil)
	st := r.cu.Legacy()
	l := r.launchOf("node", 2, 3, 1, depth)
	r.failOn(st.Launch(l))
	for p := st.Progress(); !p.Begun && p.Done == 0; p = st.Progress() {
		runtime.Gosched()
		r.failOn(t.Context().Err())
	}
	r.space.Pause()
	for r.space.Unmap() != nil {
		runtime.Gosched()
		r.failOn(t.Context().Err())
	}
	p := st.Progress()
	switch {
	case p.Done == 1:
		t.Log("the launch ended before the pause")
	case p.Begun:
		t.Fatalf("paused: %+v", p)
	default:
		o := newFamilyRig(t, r)
		l = o.launchOf("node", 2, 3, 1, depth)
		l.Done = p.Partial
		if got := o.runLaunch(l); !slices.Equal(got, want) {
			t.Errorf("in the copy %v, want %v", got, want)
		}
	}
	r.failOn(r.space.Map())
	r.failOn(r.cu.Synchronize(t.Context()))
	if got := r.noted(); !slices.Equal(got, want) {
		t.Errorf("where the launch was paused %v, want %v", got, want)
	}
}

// TestDamagedFamily: a saved part of a launch that cannot be is refused.
func TestDamagedFamily(t *testing.T) {
	r := newFamilyRig(t, nil)
	l := r.launchOf("node", 2, 3, 1, 2)
	f := r.beginParts(l)
	for range 3 {
		f.runPart()
	}
	var done backend.PartialKernel
	f.tree.describeIn(&done)
	if !strings.Contains(done.Launches, `"kernel":"node"`) {
		t.Fatalf("saved as %q", done.Launches)
	}
	damaged := func(old, new string) string {
		if !strings.Contains(done.Launches, old) {
			t.Fatalf("no %s in %s", old, done.Launches)
		}
		return strings.Replace(done.Launches, old, new, 1)
	}
	for _, text := range []string{
		"{", "[null]", `[{"kernel":"node","children":[null]}]`, damaged(`"node"`, `"nose"`), damaged(`"X":2`, `"X":0`), damaged(`"X":3`, `"X":2000`),
		damaged(`"level":1`, `"level":25`), damaged(`"level":1`, `"level":-1`), damaged(`"done":1`, `"done":3`),
	} {
		l.Done = backend.PartialKernel{Launches: text}
		if err := r.cu.Legacy().Launch(l); backend.ResultOf(err) != backend.InvalidValue {
			t.Errorf("%s: %v, want INVALID_VALUE", text, err)
		}
	}
	leaf := r.launchOf("leaf", 1, 1, 1, 1)
	leaf.Done.Launches = done.Launches
	if err := r.cu.Legacy().Launch(leaf); backend.ResultOf(err) != backend.InvalidValue {
		t.Errorf("launches by threads of a kernel that launches no kernel: %v, want INVALID_VALUE", err)
	}
}

// TestLaunchesByThreads: the order of launches by threads, and the errors that threads get of launches that are refused.
func TestLaunchesByThreads(t *testing.T) {
	const toldNoBuffer = 100
	for _, c := range []struct {
		name        string
		kernel      string
		grid, block uint32
		numbers     []uint32
		pending     uint64
		want        []uint32
	}{
		{"order", "node", 2, 3, []uint32{1, 2}, 0, noteNodes(1, 2, nil)},
		{"too deep", "deep", 1, 1, []uint32{0, 0}, 0, []uint32{24005}},
		{"a chain of tail launches", "chain", 1, 1, []uint32{0, 100}, 0, countDown(100)},
		{"by a pointer in memory", "tell", 1, 2, []uint32{0, 1, 1, 0}, 0, []uint32{0, 1000, 0, 1}},
		{"too many", "tell", 1, 3, []uint32{0, 1, 1, 0}, 2, []uint32{0, 1000, 2000 + toldNoBuffer + 69, 0, 1}},
		{"too many of a block, but not of a grid", "tell", 3, 1, []uint32{0, 1, 1, 0}, 1, []uint32{0, 0, 0, 0, 0, 0}},
		{"no kernel", "tell", 1, 1, []uint32{2, 1, 1, 0}, 0, []uint32{toldNoBuffer + 1}},
		{"no block", "tell", 1, 1, []uint32{0, 0, 1, 0}, 0, []uint32{7}},
		{"no thread", "tell", 1, 1, []uint32{0, 1, 0, 0}, 0, []uint32{7}},
		{"too many threads", "tell", 1, 1, []uint32{0, 1, 1025, 0}, 0, []uint32{7}},
		{"too much shared memory", "tell", 1, 1, []uint32{0, 1, 1, 49153}, 0, []uint32{6}},
		{"first form", "first", 1, 1, []uint32{9}, 0, []uint32{0, 9}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newFamilyRig(t, nil)
			if c.pending != 0 {
				r.failOn(r.cu.SetLimit(backend.LimitPendingLaunches, c.pending))
			}
			if got := r.runLaunch(r.launchOf(c.kernel, c.grid, c.block, c.numbers...)); !slices.Equal(got, c.want) {
				t.Errorf("noted %v, want %v", got, c.want)
			}
		})
	}
}

func countDown(n uint32) (out []uint32) {
	for i := n; ; i-- {
		if out = append(out, i); i == 0 {
			return out
		}
	}
}

// TestFamilyPrints: kernels that threads launch print, in the order in which they run.
func TestFamilyPrints(t *testing.T) {
	r := newFamilyRig(t, nil)
	r.runLaunch(r.launchOf("tell", 2, 3, 0, 1, 1, 0))
	if got, want := r.printed.String(), "0 1 2 0 1 2 "; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

// TestFaultOfChild: a fault of a kernel that a thread has launched is the context's.
func TestFaultOfChild(t *testing.T) {
	r := newFamilyRig(t, nil)
	r.failOn(r.cu.Legacy().Launch(r.launchOf("tell", 1, 1, 1, 1, 1, 0)))
	if err := r.cu.Synchronize(t.Context()); backend.ResultOf(err) != backend.IllegalAddress || !strings.Contains(err.Error(), "kernel fault") {
		t.Errorf("%v, want ILLEGAL_ADDRESS of the kernel fault", err)
	}
}

// TestFamilyOfGraph: a graph's kernels launch kernels, in each of its runs.
func TestFamilyOfGraph(t *testing.T) {
	r := newFamilyRig(t, nil)
	g := &backend.Graph{}
	if _, err := g.Add(backend.KernelNode{Launch: r.launchOf("node", 2, 3, 1, 1)}); err != nil {
		t.Fatal(err)
	}
	x, err := r.cu.Instantiate(g)
	r.failOn(err)
	for range 2 {
		r.failOn(r.cu.Legacy().Graph(x))
	}
	r.failOn(r.cu.Synchronize(t.Context()))
	once := noteNodes(1, 1, nil)
	if got, want := r.noted(), append(slices.Clone(once), once...); !slices.Equal(got, want) {
		t.Errorf("noted %v, want %v", got, want)
	}
}

// TestFamilyOfCooperative: the children of a cooperative launch run when all of its blocks have ended.
func TestFamilyOfCooperative(t *testing.T) {
	r := newFamilyRig(t, nil)
	l := r.launchOf("tell", 2, 1, 0, 1, 1, 0)
	l.Cooperative = true
	if got, want := r.runLaunch(l), []uint32{0, 0, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("noted %v, want %v", got, want)
	}
	if got, want := r.printed.String(), "0 0 "; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

// TestRefusedChild: a kernel is refused, by name, if a kernel is that its threads launch.
func TestRefusedChild(t *testing.T) {
	r := newFamilyRig(t, nil)
	text := strings.Replace(familyKernels, "st.global.u32 [%rd1], %r1;\n\tret;\n}\n\n// tell", "tld4.r.2d.v4.f32.f32 {a, b, c, d}, [t, {x, y}];\n\tret;\n}\n\n// tell", 1) +
		`.visible .entry parent() { .reg .b64 %rd<2>; mov.u64 %rd1, fault; st.global.u64 [table], %rd1; ret; }`
	m, log, err := r.cu.Load([]byte(text), backend.LoadConfig{})
	if err != nil {
		t.Fatalf("%v\n%s", err, log.Error)
	}
	if _, err := m.Function("parent"); backend.ResultOf(err) != backend.NotSupported || !strings.Contains(err.Error(), "tld4") {
		t.Errorf("the kernel with the other's address: %v, want NOT_SUPPORTED with tld4", err)
	}
	// A kernel that is known only when a thread launches it ends the launch.
	r.module = m
	r.failOn(r.cu.Legacy().Launch(r.launchOf("tell", 1, 1, 1, 1, 1, 0)))
	if err := r.cu.Synchronize(t.Context()); err == nil || !strings.Contains(err.Error(), "launch of kernel fault by a thread") || !strings.Contains(err.Error(), "tld4") {
		t.Errorf("the launch of the kernel: %v, want an error with its name and tld4", err)
	}
}

// TestPendingLimit: the limit of launches that wait is a limit of the context.
func TestPendingLimit(t *testing.T) {
	r := newFamilyRig(t, nil)
	v, err := r.cu.Limit(backend.LimitPendingLaunches)
	r.failOn(err)
	if v != 2048 {
		t.Errorf("%d launches may wait, want 2048", v)
	}
	if err := r.cu.SetLimit(backend.LimitPendingLaunches, mostPending+1); backend.ResultOf(err) != backend.InvalidValue {
		t.Errorf("a limit of %d: %v, want INVALID_VALUE", mostPending+1, err)
	}
}

// TestBytesOfWaiting: launches with large parameters are bounded by their bytes.
func TestBytesOfWaiting(t *testing.T) {
	r := newFamilyRig(t, nil)
	tree := &gridTree{family: &family{module: r.module.(*module), name: "node", pending: mostPending}, stack: []*grid{{}}}
	c := childLaunch{kernel: "leaf", grid: backend.Dim{X: 1, Y: 1, Z: 1}, block: backend.Dim{X: 1, Y: 1, Z: 1}, params: bytes.Repeat([]byte{1}, 1<<20)}
	n := 0
	for ; tree.recordChild(c) == launchRecorded; n++ {
	}
	if n != 15 || tree.recordChild(c) != launchOutOfResources {
		t.Errorf("%d launches of a MiB wait, want 15", n)
	}
}

// TestFamilyIsNotSpliced: kernels with threads that launch kernels run for each of the spaces that launch them alike.
func TestFamilyIsNotSpliced(t *testing.T) {
	b, err := New(Config{Memory: []uint64{64 << 20}, Splice: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	var all []*familyRig
	for range 2 {
		r := &familyRig{T: t}
		r.addSpace(b.Devices()[0], backend.SpaceConfig{})
		r.loadKernels(backend.LoadConfig{})
		r.failOn(r.space.Unmap())
		all = append(all, r)
	}
	want := []uint32{}
	for range 8 {
		want = noteNodes(1, 1, want)
		for _, r := range all {
			r.failOn(r.space.Map())
			if got := r.runLaunch(r.launchOf("node", 2, 3, 1, 1)); !slices.Equal(got, want) {
				t.Fatalf("noted %v, want %v", got, want)
			}
			r.failOn(r.space.Unmap())
		}
	}
	if got := b.Devices()[0].(*device).Spliced(); got.Once != 0 || got.Own != 16 || got.Why != whyLaunches {
		t.Errorf("%+v, want 16 launches of the spaces' own, because %s", got, whyLaunches)
	}
}
