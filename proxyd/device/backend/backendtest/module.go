// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"encoding/binary"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

func testModules(r *rig) {
	total, _ := r.space.Info()
	m := r.loadKernels()
	checkNames(r, m)

	g := must(m.Global("counter"))(r)
	checkEqual(r, "size", g.Size, 4)
	v := m.Variables()
	if x, ok := r.space.Lookup(v.Base); !ok || x.Kind != backend.Globals || x.Size != v.Size {
		r.Errorf("Lookup of the module's variables %+v = %+v, %v, want Globals of the same size", v, x, ok)
	}
	x, ok := r.space.Lookup(g.Addr)
	if !ok || x.Kind != backend.Globals || x.Context != r.cu.ID() {
		r.Errorf("Lookup of variable counter = %+v, %v, want Globals of the module's context", x, ok)
	}
	r.wantBytes("counter at first", g.Addr, joinWords(7))
	r.wantBytes("constants", must(m.Global("table"))(r).Addr, joinWords(1, 2, 3, 4))
	a := r.allocBytes(4)
	bump := r.findKernel(m, "bump")
	for want := range uint32(3) {
		r.mustSucceed(r.runKernel(bump, 1, joinArgs([]backend.Addr{a})))
		r.syncStream()
		r.wantBytes("counter", a, joinWords(7+want))
	}
	r.copyIn(g.Addr, joinWords(100))
	r.mustSucceed(r.runKernel(bump, 1, joinArgs([]backend.Addr{a})))
	r.syncStream()
	r.wantBytes("counter set by the program", a, joinWords(100))
	r.wantError("free a variable", r.cu.Free(v.Base), backend.InvalidValue)

	fat, _, err := r.cu.Load(Fatbin(Kernels, 80), backend.LoadConfig{})
	r.mustSucceed(err)
	r.findKernel(fat, "add")
	r.mustSucceed(fat.Unload())

	// A second load has variables of its own.
	o := r.loadKernels()
	if og := must(o.Global("counter"))(r); og.Addr == g.Addr {
		r.Error("two modules share a variable")
	} else {
		r.wantBytes("its counter", og.Addr, joinWords(7))
	}
	r.mustSucceed(m.Unload())
	r.mustSucceed(o.Unload())
	r.mustSucceed(r.cu.Free(a))
	r.mustSucceed(r.space.Drain(r.ctx))
	free, _ := r.space.Info()
	checkEqual(r, "free at the end", free, total)
}

// checkNames looks up the functions of the module Kernels, and names that the module does not have.
func checkNames(r *rig, m backend.Module) {
	r.Helper()
	var names []string
	for _, f := range m.Functions() {
		names = append(names, f.Name())
		if f.Module() != m {
			r.Errorf("%s is of another module", f.Name())
		}
	}
	checkEqual(r, "functions", strings.Join(names, " "), "add bump poke spin stop say claim limited exact shares grab peek drop")
	if r.findKernel(m, "add") != r.findKernel(m, "add") {
		r.Error("a function has two values")
	}
	_, err := m.Function("absent")
	r.wantError("function", err, backend.NotFound)
	_, err = m.Global("absent")
	r.wantError("variable", err, backend.NotFound)
}

func testImagesMisused(r *rig) {
	for _, tc := range []struct {
		name, image string
		want        backend.Result
		log         string
	}{
		{"nothing", "", backend.InvalidImage, ""},
		{"rubbish", "hello", backend.InvalidImage, ""},
		{"not PTX", Broken, backend.InvalidPTX, "frobnicate"},
		{"a fatbin for newer devices", string(Fatbin(Kernels, 250)), backend.NoBinaryForGPU, ""},
		{"half a fatbin", string(Fatbin(Kernels, 80)[:1000]), backend.InvalidImage, ""},
		{"an ELF file without code", "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 100), backend.InvalidImage, ""},
	} {
		m, log, err := r.cu.Load([]byte(tc.image), backend.LoadConfig{})
		r.wantError(tc.name, err, tc.want)
		if m != nil || !strings.Contains(log.Error, tc.log) {
			r.Errorf("%s: Load gave module %v and log %q, want no module and the reason in the log", tc.name, m, log.Error)
		}
	}
	free, total := r.space.Info()
	checkEqual(r, "free", free, total)
	// An undefined variable is refused by its name, or, as drivers that load lazily do, not before a kernel uses it.
	m, log, err := r.cu.Load([]byte(Needs), backend.LoadConfig{})
	if err == nil {
		r.mustSucceed(m.Unload())
	} else if r.wantError("an undefined variable", err, backend.InvalidPTX); !strings.Contains(log.Error, "answer") {
		r.Errorf("an undefined variable: log %q", log.Error)
	}
	// The variables must be in the state that the space was made with.
	_, _, err = r.cu.Load([]byte(Kernels), backend.LoadConfig{Globals: r.allocBytes(4)})
	r.wantError("variables elsewhere", err, backend.InvalidValue)
}

func testLink(r *rig) {
	data, log, err := r.cu.Link([][]byte{[]byte(Needs), []byte(Defines)}, backend.LoadConfig{})
	if err != nil {
		r.Fatalf("%v\n%s", err, log.Error)
	}
	m, _, err := r.cu.Load(data, backend.LoadConfig{})
	r.mustSucceed(err)
	a := r.allocBytes(4)
	r.mustSucceed(r.runKernel(r.findKernel(m, "ask"), 1, joinArgs([]backend.Addr{a})))
	r.syncStream()
	r.wantBytes("answer", a, joinWords(42))

	_, log, err = r.cu.Link([][]byte{[]byte(Needs)}, backend.LoadConfig{})
	r.wantError("undefined", err, backend.InvalidPTX)
	if !strings.Contains(log.Error, "answer") {
		r.Errorf("log %q", log.Error)
	}
	_, _, err = r.cu.Link([][]byte{[]byte(Defines), []byte(Defines)}, backend.LoadConfig{})
	r.wantError("defined twice", err, backend.InvalidPTX)
	_, _, err = r.cu.Link(nil, backend.LoadConfig{})
	r.wantError("nothing", err, backend.InvalidImage)
	_, _, err = r.cu.Link([][]byte{[]byte("hello")}, backend.LoadConfig{})
	r.wantError("rubbish", err, backend.InvalidImage)
}

func testFunctionAttributes(r *rig) {
	m := r.loadKernels()
	attr := func(f string, a backend.FunctionAttribute) int32 {
		r.Helper()
		return must(r.findKernel(m, f).Attribute(a))(r)
	}
	checkEqual(r, "threads", attr("add", backend.FuncMaxThreads), 1024)
	checkEqual(r, "threads of .maxntid", attr("limited", backend.FuncMaxThreads), 64)
	checkEqual(r, "shared memory", attr("shares", backend.FuncSharedSize), 1024)
	checkEqual(r, "dynamic shared memory", attr("add", backend.FuncMaxDynamicShared), 48<<10)
	checkEqual(r, "dynamic shared memory", attr("shares", backend.FuncMaxDynamicShared), 47<<10)
	checkEqual(r, "version", attr("add", backend.FuncPTXVersion), 80) // that of .target, not of .version
	if n := attr("add", backend.FuncRegisters); n <= 0 || n > 255 {
		r.Errorf("kernel add uses %d registers, want 1 to 255", n)
	}
	add := r.findKernel(m, "add")
	_, err := add.Attribute(99)
	r.wantError("no attribute", err, backend.InvalidValue)
	r.wantError("set what is fixed", add.SetAttribute(backend.FuncRegisters, 5), backend.InvalidValue)
	r.wantError("negative", add.SetAttribute(backend.FuncMaxDynamicShared, -1), backend.InvalidValue)
	at := &r.dev.Info().Attributes
	r.wantError("more than a block has", add.SetAttribute(backend.FuncMaxDynamicShared, at[backend.MaxSharedPerBlockOptin]+1), backend.InvalidValue)
	if at[backend.ComputeMajor] >= 9 {
		r.mustSucceed(add.SetAttribute(backend.FuncNonPortableCluster, 1))
		checkEqual(r, "clusters that are not portable", attr("add", backend.FuncNonPortableCluster), 1)
		r.mustSucceed(add.SetAttribute(backend.FuncNonPortableCluster, 2)) // any value but 0 means yes
	}
	r.mustSucceed(add.SetAttribute(backend.FuncMaxDynamicShared, 100<<10))
	checkEqual(r, "dynamic shared memory", attr("add", backend.FuncMaxDynamicShared), 100<<10)
	r.mustSucceed(add.SetAttribute(backend.FuncSharedCarveout, 50))
	checkEqual(r, "carve-out", attr("add", backend.FuncSharedCarveout), 50)
	p := add.Params()
	if len(p) != 2 || p[0] != (backend.Param{Offset: 0, Size: 8}) || p[1] != (backend.Param{Offset: 8, Size: 4}) {
		r.Errorf("parameters %v", p)
	}
	checkEqual(r, "parameters of none", len(r.findKernel(m, "stop").Params()), 0)
	checkEqual(r, "any block", add.Required(), backend.Dim{})
	checkEqual(r, "the block of .reqntid", r.findKernel(m, "exact").Required(), backend.Dim{X: 32, Y: 2, Z: 1})
}

func testLaunchKernel(r *rig) {
	m := r.loadKernels()
	add := r.findKernel(m, "add")
	const n = 1000 * 64
	a := r.allocBytes(4 * n)
	p := joinArgs([]backend.Addr{a}, 3)
	l := backend.Launch{Function: add, Grid: backend.Dim{X: 1000, Y: 1, Z: 1}, Block: backend.Dim{X: 64, Y: 1, Z: 1}, Params: p}
	r.mustSucceed(r.stream.Launch(l))
	p[8] = 99 // the parameters were taken at the call
	p[0] = 99
	r.syncStream()
	got := r.copyOut(a, 4*n)
	for i := range n {
		if got[4*i] != 3 || got[4*i+1]|got[4*i+2]|got[4*i+3] != 0 {
			r.Fatalf("element %d: % x", i, got[4*i:][:4])
		}
	}
	// In order behind each other.
	for range 100 {
		r.mustSucceed(r.runKernel(add, 1, joinArgs([]backend.Addr{a}, 1)))
	}
	r.syncStream()
	r.wantBytes("after 100 more", a, joinWords(103, 3))
}

func testLaunchRefused(r *rig) {
	m := r.loadKernels()
	add, limited, exact := r.findKernel(m, "add"), r.findKernel(m, "limited"), r.findKernel(m, "exact")
	a := r.allocBytes(4096)
	p := joinArgs([]backend.Addr{a}, 1)
	dim := func(x, y, z uint32) backend.Dim { return backend.Dim{X: x, Y: y, Z: z} }
	foreign := must(r.space.NewContext(0))(r)
	fm, _, err := foreign.Load([]byte(Kernels), backend.LoadConfig{})
	r.mustSucceed(err)
	for _, tc := range []struct {
		name string
		l    backend.Launch
		want backend.Result
	}{
		{"right", backend.Launch{Function: add, Grid: one, Block: dim(4, 1, 1), Params: p}, backend.Success},
		{"all threads", backend.Launch{Function: add, Grid: one, Block: dim(1024, 1, 1), Params: p}, backend.Success},
		{"grid of 0", backend.Launch{Function: add, Grid: dim(0, 1, 1), Block: one, Params: p}, backend.InvalidValue},
		{"block of 0", backend.Launch{Function: add, Grid: one, Block: dim(1, 0, 1), Params: p}, backend.InvalidValue},
		{"grid too high", backend.Launch{Function: add, Grid: dim(1, 65536, 1), Block: one, Params: p}, backend.InvalidValue},
		{"grid too deep", backend.Launch{Function: add, Grid: dim(1, 1, 65536), Block: one, Params: p}, backend.InvalidValue},
		{"grid too wide", backend.Launch{Function: add, Grid: dim(1<<31, 1, 1), Block: one, Params: p}, backend.InvalidValue},
		{"block too deep", backend.Launch{Function: add, Grid: one, Block: dim(1, 1, 65), Params: p}, backend.InvalidValue},
		{"block too wide", backend.Launch{Function: add, Grid: one, Block: dim(1025, 1, 1), Params: p}, backend.InvalidValue},
		{"too many threads", backend.Launch{Function: add, Grid: one, Block: dim(33, 32, 1), Params: p}, backend.InvalidValue},
		{"too few parameters", backend.Launch{Function: add, Grid: one, Block: one, Params: p[:8]}, backend.InvalidValue},
		{"too much shared memory", backend.Launch{Function: add, Grid: one, Block: one, Params: p, Shared: 48<<10 + 1}, backend.InvalidValue},
		{"as much as .maxntid", backend.Launch{Function: limited, Grid: one, Block: dim(64, 1, 1)}, backend.Success},
		{"more than .maxntid", backend.Launch{Function: limited, Grid: one, Block: dim(65, 1, 1)}, backend.InvalidValue},
		{"as .reqntid", backend.Launch{Function: exact, Grid: one, Block: dim(32, 2, 1)}, backend.Success},
		{"not as .reqntid", backend.Launch{Function: exact, Grid: one, Block: dim(64, 1, 1)}, backend.InvalidValue},
		{"another context's", backend.Launch{Function: fm.Functions()[0], Grid: one, Block: one, Params: p}, backend.InvalidHandle},
	} {
		r.wantError(tc.name, r.stream.Launch(tc.l), tc.want)
	}
	r.mustSucceed(add.SetAttribute(backend.FuncMaxDynamicShared, 100<<10))
	r.mustSucceed(r.stream.Launch(backend.Launch{Function: add, Grid: one, Block: one, Params: p, Shared: 100 << 10}))
	r.syncStream()
	r.mustSucceed(r.cu.Err())
}

func testCooperative(r *rig) {
	add := r.findKernel(r.loadKernels(), "add")
	a := r.allocBytes(4 << 20)
	l := backend.Launch{Function: add, Grid: backend.Dim{X: 8, Y: 1, Z: 1}, Block: backend.Dim{X: 1024, Y: 1, Z: 1}, Params: joinArgs([]backend.Addr{a}, 1), Cooperative: true}
	r.mustSucceed(r.stream.Launch(l))
	r.syncStream()
	r.wantBytes("cooperative", a+4*8191, joinWords(1, 0))
	info := r.dev.Info()
	fit := uint32(info.Attributes[backend.Multiprocessors]) * uint32(info.Attributes[backend.MaxThreadsPerMultiprocessor]) / 1024
	l.Grid.X = fit + 1
	r.wantError("more blocks than fit", r.stream.Launch(l), backend.CooperativeLaunchTooBig)
}

func testPrinting(r *rig) {
	var got [3]strings.Builder
	cfg := r.configApart()
	cfg.Output = func(fd int, text []byte) { got[fd].Write(text) }
	s := must(r.secondDevice().NewSpace(cfg))(r)
	r.mustSucceed(s.Map())
	cu := must(s.NewContext(0))(r)
	m, _, err := cu.Load([]byte(Kernels), backend.LoadConfig{})
	r.mustSucceed(err)
	say := must(m.Function("say"))(r)
	for i := range uint32(3) {
		r.mustSucceed(cu.Legacy().Launch(backend.Launch{Function: say, Grid: one, Block: backend.Dim{X: 2, Y: 1, Z: 1}, Params: joinWords(i)}))
	}
	r.mustSucceed(cu.Synchronize(r.ctx))
	checkEqual(r, "printed", got[1].String(), "hello 0\nhello 0\nhello 1\nhello 1\nhello 2\nhello 2\n")
	r.mustSucceed(cu.Legacy().Launch(backend.Launch{Function: must(m.Function("claim"))(r), Grid: one, Block: backend.Dim{X: 2, Y: 1, Z: 1}}))
	r.wantError("assertion", cu.Synchronize(r.ctx), backend.Assert)
	checkEqual(r, "said of it", got[2].String(), "a.cu:42: a.cu: block: [0,0,0], thread: [0,0,0] Assertion `wrong` failed.\na.cu:42: a.cu: block: [0,0,0], thread: [1,0,0] Assertion `wrong` failed.\n")
	// Without an output only the text is lost.
	r.mustSucceed(r.stream.Launch(backend.Launch{Function: r.findKernel(r.loadKernels(), "say"), Grid: one, Block: one, Params: joinWords(1)}))
	r.syncStream()
}

func testKernelHeap(r *rig) {
	m := r.loadKernels()
	grab, peek, drop := r.findKernel(m, "grab"), r.findKernel(m, "peek"), r.findKernel(m, "drop")
	r.mustSucceed(r.cu.SetLimit(backend.LimitMallocHeap, 1<<20))
	p, q, out := r.allocBytes(8), r.allocBytes(8), r.allocBytes(4)
	free, _ := r.space.Info()
	get := func(p backend.Addr, n, v uint32) backend.Addr {
		r.Helper()
		r.mustSucceed(r.runKernel(grab, 1, joinArgs([]backend.Addr{p}, n, v)))
		r.syncStream()
		return backend.Addr(binary.LittleEndian.Uint64(r.copyOut(p, 8)))
	}
	a, b := get(p, 100, 5), get(q, 100, 6)
	if a == 0 || b == 0 || a == b || a%16 != 0 {
		r.Errorf("malloc of a kernel gave %#x and %#x, want two different addresses, aligned to 16", uint64(a), uint64(b))
	}
	r.mustSucceed(r.runKernel(peek, 1, joinArgs([]backend.Addr{p, out})))
	r.syncStream()
	r.wantBytes("what an earlier kernel wrote", out, joinWords(5))
	r.wantError("copy from it", r.stream.Copy(backend.Copy{Src: deviceAt(a), Dst: deviceAt(out), Width: 4}), backend.InvalidValue)
	left, _ := r.space.Info()
	checkEqual(r, "free", left, free)
	r.wantError("set the limit", r.cu.SetLimit(backend.LimitMallocHeap, 2<<20), backend.InvalidValue)
	checkEqual(r, "more than the heap", get(out, 1<<20, 1), 0)
	r.mustSucceed(r.runKernel(drop, 1, joinArgs([]backend.Addr{p})))
	checkEqual(r, "the first place is free again", get(p, 50, 7), a)

	// Its bytes and its pieces are carried like all other memory.
	r.mustSucceed(r.space.Drain(r.ctx))
	o := carrySpace(r, r.secondDevice())
	om, _, err := o.cu.Load([]byte(Kernels), backend.LoadConfig{Globals: m.Variables().Base})
	r.mustSucceed(err)
	r.mustSucceed(o.runKernel(o.findKernel(om, "peek"), 1, joinArgs([]backend.Addr{q, out})))
	o.syncStream()
	o.wantBytes("after a restore", out, joinWords(6))
	r.mustSucceed(o.runKernel(o.findKernel(om, "grab"), 1, joinArgs([]backend.Addr{p}, 500, 8)))
	o.syncStream()
	c := backend.Addr(binary.LittleEndian.Uint64(o.copyOut(p, 8)))
	o.mapOtherSpace(r)
	checkEqual(r, "the next place after a restore", c, get(p, 500, 8))

	// The module ends with its context.
	r.mustSucceed(r.cu.Destroy())
	if h := r.space.State().KernelHeap; h == nil || len(h.Pieces) != 0 {
		r.Errorf("after the context was destroyed, the kernel heap = %+v, want one without pieces", h)
	}
}

func noParams(backend.Addr) []byte { return nil }

// faultAt has a kernel write to an address, and faultBehind so far behind the beginning of its memory.
func faultAt(at backend.Addr) func(backend.Addr) []byte {
	return func(backend.Addr) []byte { return joinArgs([]backend.Addr{at}, 1) }
}

func faultBehind(distance backend.Addr) func(backend.Addr) []byte {
	return func(a backend.Addr) []byte { return joinArgs([]backend.Addr{a + distance}, 1) }
}

// testFault: a fault of a kernel stays with its context.
func testFault(r *rig, kernel string, params func(a backend.Addr) []byte, want backend.Result) {
	cu := must(r.space.NewContext(0))(r)
	m, _, err := cu.Load([]byte(Kernels), backend.LoadConfig{})
	r.mustSucceed(err)
	f := must(m.Function(kernel))(r)
	s := must(cu.NewStream(backend.StreamConfig{}))(r)
	e := must(cu.NewEvent(backend.EventConfig{}))(r)
	a := must(cu.Alloc(64))(r)
	x := must(cu.Instantiate(&backend.Graph{}))(r)
	if free, _ := r.space.Info(); free == 0 {
		r.Fatal("no memory is left")
	}
	r.mustSucceed(s.Launch(backend.Launch{Function: f, Grid: one, Block: one, Params: params(a)}))
	late := false
	_ = s.Fill(backend.Fill{Addr: a, Value: 9, Element: 1, Width: 64}) // dropped, or refused if the fault was faster
	_ = s.Record(e)
	_ = s.Host(func() { late = true })
	r.wantError("the stream", s.Synchronize(r.ctx), want)
	r.wantError("the context", cu.Err(), want)
	_, errAlloc := cu.Alloc(4)
	_, errStream := cu.NewStream(backend.StreamConfig{})
	_, errEvent := cu.NewEvent(backend.EventConfig{})
	_, _, errLoad := cu.Load([]byte(Kernels), backend.LoadConfig{})
	_, errFunction := m.Function("add")
	_, errLimit := cu.Limit(backend.LimitStackSize)
	_, errAsync := s.AllocAsync(backend.DefaultPool, 4)
	_, errAttribute := f.Attribute(backend.FuncMaxThreads)
	_, errInstantiate := cu.Instantiate(&backend.Graph{})
	for what, err := range map[string]error{
		"alloc": errAlloc, "stream": errStream, "event": errEvent, "load": errLoad, "function": errFunction, "limit": errLimit,
		"alloc async": errAsync, "attribute": errAttribute, "instantiate": errInstantiate, "graph": s.Graph(x), "free": cu.Free(a),
		"fill": s.Fill(backend.Fill{Addr: a, Element: 1, Width: 1}), "query": s.Query(), "event query": e.Query(), "record": s.Record(e),
		"synchronize": cu.Synchronize(r.ctx), "legacy": cu.Legacy().Synchronize(r.ctx), "event synchronize": e.Synchronize(r.ctx),
		"launch": s.Launch(backend.Launch{Function: f, Grid: one, Block: one, Params: params(a)}),
	} {
		r.wantError(what, err, want)
	}
	r.mustSucceed(x.Destroy())
	r.wantError("destroy the graph twice", x.Destroy(), backend.InvalidHandle)
	r.mustSucceed(r.space.Drain(r.ctx))
	_ = cu.Destroy() // a driver may repeat the fault
	_ = late         // dropped or not
}

// testFaultAlone: other contexts go on, and memory that the kernel does not write is unchanged.
func testFaultAlone(r *rig) {
	cu := must(r.space.NewContext(0))(r)
	m, _, err := cu.Load([]byte(Kernels), backend.LoadConfig{})
	r.mustSucceed(err)
	s := must(cu.NewStream(backend.StreamConfig{}))(r)
	a := must(cu.Alloc(64))(r)
	r.mustSucceed(s.Launch(backend.Launch{Function: must(m.Function("poke"))(r), Grid: one, Block: one, Params: joinArgs([]backend.Addr{a + 1}, 1)}))
	r.wantError("the fault", s.Synchronize(r.ctx), backend.MisalignedAddress)
	r.mustSucceed(r.cu.Err())
	r.wantBytes("memory", a, make([]byte, 64))
	r.mustSucceed(r.space.Drain(r.ctx))
	r.mustSucceed(cu.Destroy())
}
