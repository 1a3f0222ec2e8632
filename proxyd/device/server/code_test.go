// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/backendtest"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/image"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/handles"
)

// The results of this file.
const (
	notFound     = int32(dispatch.ResultNotFound)
	notPermitted = int32(dispatch.ResultNotPermitted)
	invalidImage = int32(dispatch.ResultInvalidImage)
	invalidPTX   = int32(dispatch.ResultInvalidPtx)
)

const kernels = `.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 step = 5;
.visible .entry add(.param .u64 p, .param .u32 v) .maxntid 128, 1, 1
{
	.reg .u64 %p; .reg .u32 %v, %s;
	.shared .align 4 .b8 fixed[512];
	st.shared.u32 [fixed], 1;
	ld.param.u64 %p, [p]; ld.param.u32 %v, [v]; ld.global.u32 %s, [step]; add.u32 %v, %v, %s;
	st.global.u32 [%p], %v;
	ret;
}
.visible .entry exact() .reqntid 8, 4, 1 { ret; }
.visible .entry abc() { ret; }
`

// loadModule loads a module.
func (c *client) loadModule(text string) uint64 {
	c.t.Helper()
	out := c.must("module_load", []byte(text), uint64(len(text)), uint64(0), uint64(0), uint32(0), uint32(0), uint32(0))
	return binary.LittleEndian.Uint64(out[16:]) // behind two texts
}

// loadLibrary loads a library.
func (c *client) loadLibrary(text string) uint64 {
	c.t.Helper()
	out := c.must("library_load", []byte(text), uint64(len(text)), uint64(0), uint64(0), uint32(0), uint64(0), uint64(0), uint32(0), uint32(0), uint32(0))
	return binary.LittleEndian.Uint64(out[16:])
}

// makeObjects makes an object of each of this file's classes, and returns the handles.
func (c *client) makeObjects() []uint64 {
	c.t.Helper()
	m, l := c.loadModule(kernels), c.loadLibrary(kernels)
	return []uint64{
		m, c.callForNumber("cuModuleGetFunction", m, "add"), c.callForNumber("cuModuleGetFunction", m, "abc"), l, c.callForNumber("cuLibraryGetKernel", l, "abc"),
		c.callForNumber("link_create", uint64(0), uint64(0), uint32(0)),
	}
}

// launchOne posts a launch of a single block of a single thread.
func (c *client) launchOne(f, stream, p uint64, v uint32) {
	params := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, p), v)
	c.launchShape(f, [7]uint32{1, 1, 1, 1, 1, 1, 0}, stream, params)
}

func (c *client) launchShape(f uint64, shape [7]uint32, stream uint64, params []byte) {
	c.post("launch", f, shape, stream, params, uint32(len(params)))
}

// TestModules: the contents of a module are found by name and run. They are gone when the module is unloaded or its
// context ends.
func TestModules(t *testing.T) {
	_, cs := attachProcess(t, newServer(t, 1), 1)
	c := cs[0]
	c.beginContext(ctxA, 0)
	m := c.loadModule(kernels)
	add := c.callForNumber("cuModuleGetFunction", m, "add")
	if again := c.callForNumber("cuModuleGetFunction", m, "add"); again != add {
		t.Errorf("the same function is %#x and %#x", add, again)
	}
	a := c.alloc(4)
	c.launchOne(add, 0, a, 37)
	if got := binary.LittleEndian.Uint32(c.readBytes(a, 4)); got != 42 {
		t.Errorf("the kernel wrote %d", got)
	}
	global := c.must("cuModuleGetGlobal_v2", uint8(1), uint8(1), m, "step")
	if n := binary.LittleEndian.Uint64(global[8:]); n != 4 {
		t.Errorf("a variable of %d bytes", n)
	}
	if b := c.readBytes(binary.LittleEndian.Uint64(global), 4); !bytes.Equal(b, []byte{5, 0, 0, 0}) {
		t.Errorf("the variable is % x", b)
	}
	c.want(notFound, "cuModuleGetFunction", m, "step")
	c.want(invalidValue, "cuModuleGetGlobal_v2", uint8(1), uint8(0), m, "add") // a kernel
	c.want(notFound, "cuModuleGetGlobal_v2", uint8(1), uint8(0), m, "none")
	if name := string(c.must("function_name", uint32(100), add)[8:]); name != "add" {
		t.Errorf("its name is %q", name)
	}
	// A module goes with its functions; a second module of the same code stays.
	twin := c.loadModule(kernels)
	c.must("cuModuleUnload", m)
	c.want(invalidHandle, "cuModuleUnload", m)
	c.want(invalidHandle, "cuFuncGetAttribute", int32(0), add)
	c.want(invalidHandle, "cuModuleGetFunction", m, "add")
	c.launchOne(add, 0, a, 1)
	c.want(invalidHandle, "cuCtxSynchronize")
	add = c.callForNumber("cuModuleGetFunction", twin, "add")
	c.beginContext(ctxB, 0)
	c.must("cuCtxDestroy_v2", uint64(ctxA))
	c.want(invalidHandle, "function_facts", add, uint32(4))
	c.want(invalidHandle, "cuModuleUnload", twin)
}

// TestRefusedKernel: a kernel that cannot run does not affect other kernels of its module, and is not listed.
func TestRefusedKernel(t *testing.T) {
	p, cs := attachProcess(t, newServer(t, 1), 1)
	c := cs[0]
	c.beginContext(ctxA, 0)
	const text = `.version 7.8
.target sm_80
.address_size 64
.visible .entry product() { wgmma.fence.sync.aligned; ret; }
.visible .entry plain() { ret; }
`
	m := c.loadModule(text)
	for range 2 {
		c.want(notSupported, "cuModuleGetFunction", m, "product")
	}
	plain := c.callForNumber("cuModuleGetFunction", m, "plain")
	if n := binary.LittleEndian.Uint32(c.must("cuModuleGetFunctionCount", m)); n != 1 {
		t.Errorf("%d functions", n)
	}
	if all := c.must("cuModuleEnumerateFunctions", uint32(9), m); len(all) != 16 || binary.LittleEndian.Uint64(all[8:]) != plain {
		t.Errorf("functions % x", all)
	}
	kernel := c.callForNumber("cuLibraryGetKernel", c.loadLibrary(text), "product")
	c.want(notSupported, "cuKernelGetFunction", kernel)
	c.must("cuCtxSynchronize")
	if n := p.ComplaintCount(); n != 1 {
		t.Errorf("%d complaints", n)
	}
	const want = "a kernel cannot run: CUDA_ERROR_NOT_SUPPORTED: application ptx input, line 4: wgmma.fence.sync.aligned is not supported: "
	if missed := p.server.Status().Missed; len(missed) != 1 || !strings.HasPrefix(missed[0], want) {
		t.Errorf("calls that are not covered: %q", missed)
	}
}

// TestCodeThatDoesNotLoad: a program whose own code does not fit is told why once, however many images it has, and so is
// the status. Texts and cubins, which programs try, are not reported.
func TestCodeThatDoesNotLoad(t *testing.T) {
	const broken = ".version 7.8\n.target sm_80\n.address_size 64\n.visible .entry f() { no.such.instruction; }\n"
	machineCode := backendtest.Fatbin("machine code", 90)
	machineCode[16] = byte(image.ELF) // the kind of the entry
	cubin := "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 11) + "\xbe" + strings.Repeat("\x00", 100)
	const noPTX = "code cannot be loaded: load: CUDA_ERROR_NO_BINARY_FOR_GPU: image has no PTX for this device: "
	for _, tc := range []struct {
		name, image string
		result      int32
		want        string // how the report begins; "": no report
		advice      string
	}{
		{"machine code", string(machineCode), 209, noPTX + "of 1 pieces of code, 1 are machine code", "-gencode arch=compute_80,code=compute_80"},
		{"PTX for newer devices", string(backendtest.Fatbin(broken, 250)), 209, noPTX + "its PTX is for architecture 250", "-gencode"},
		{"PTX that is wrong", string(backendtest.Fatbin(broken, 80)), 218, "code cannot be loaded: load: CUDA_ERROR_INVALID_PTX: ", "no.such.instruction"},
		{"a text", broken, 218, "", ""},
		{"a cubin", cubin, 209, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			peer := &own{ended: make(chan string)}
			p, cs := attachPeer(t, newServer(t, 1), 1, peer)
			c := cs[0]
			c.beginContext(ctxA, 0)
			for range 2 {
				n := uint64(len(tc.image))
				c.want(tc.result, "module_load", []byte(tc.image), n, uint64(0), uint64(0), uint32(0), uint32(0), uint32(0))
				c.want(tc.result, "library_load", []byte(tc.image), n, uint64(0), uint64(0), uint32(0), uint64(0), uint64(0), uint32(0), uint32(0), uint32(0))
			}
			peer.mu.Lock()
			said := peer.text[unix.Stderr].String()
			peer.mu.Unlock()
			missed := p.server.Status().Missed
			switch {
			case tc.want == "":
				if said != "" || len(missed) > 0 {
					t.Errorf("the program is told %q, the status has %q", said, missed)
				}
			case len(missed) != 1 || !strings.HasPrefix(missed[0], tc.want) || !strings.Contains(missed[0], tc.advice):
				t.Errorf("the status has %q, want %q and %q", missed, tc.want, tc.advice)
			case said != "singularity: "+missed[0]+"\n":
				t.Errorf("the program is told %q, the status has %q", said, missed)
			}
		})
	}
}

// TestFacts: the shim and the backend check launches by the same facts.
func TestFacts(t *testing.T) {
	_, cs := attachProcess(t, newServer(t, 1), 1)
	c := cs[0]
	c.beginContext(ctxA, 0)
	m := c.loadModule(kernels)
	add, exact := c.callForNumber("cuModuleGetFunction", m, "add"), c.callForNumber("cuModuleGetFunction", m, "exact")
	for _, tt := range []struct {
		name string
		f    uint64
		want dispatch.Facts
		n    uint32
	}{
		{"add", add, dispatch.Facts{Bytes: 12, Threads: 128, Shared: 49152 - 512}, 2},
		{"exact", exact, dispatch.Facts{Threads: 32, Shared: 49152, Required: [3]uint32{8, 4, 1}}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := c.must("function_facts", tt.f, uint32(1))
			var list []uint32
			for range 2 { // offsets and sizes, of the first
				n := binary.LittleEndian.Uint64(out)
				list = append(list, uint32(n))
				if out = out[8:]; n > 0 {
					list, out = append(list, binary.LittleEndian.Uint32(out)), out[4*n:]
				}
			}
			var got dispatch.Facts
			if _, err := binary.Decode(out, binary.LittleEndian, &got); err != nil {
				t.Fatal(err)
			}
			n := binary.LittleEndian.Uint32(out[binary.Size(got):])
			tt.want.Context = ctxA
			tt.want.AnyThreads, tt.want.Block, tt.want.Grid = 1024, [3]uint32{1024, 1024, 64}, [3]uint32{math.MaxInt32, 65535, 65535}
			tt.want.Multiprocessors, tt.want.PerMultiprocessor, tt.want.Warp = 108, 2048, 32
			tt.want.ByRegisters = 1024
			if got != tt.want || n != tt.n {
				t.Errorf("%+v and %d parameters\nwant %+v and %d", got, n, tt.want, tt.n)
			}
			if want := []uint32{1, 0, 1, 8}; tt.n > 0 && !slices.Equal(list, want) {
				t.Errorf("parameters %v", list)
			}
		})
	}
	// An error that the shim should have found is found when the call is carried out.
	params := make([]byte, 12)
	for _, shape := range [][7]uint32{
		{0, 1, 1, 1, 1, 1, 0}, {1, 1, 1, 129, 1, 1, 0}, {1, 1, 1, 1, 1, 1, 50000},
		{math.MaxUint32, math.MaxUint32, math.MaxUint32, math.MaxUint32, math.MaxUint32, math.MaxUint32, math.MaxUint32},
	} {
		c.launchShape(add, shape, 0, params)
		if r, _ := c.call("cuCtxSynchronize"); r == 0 {
			t.Errorf("a launch of %v is carried out", shape)
		}
	}
	c.launchShape(add, [7]uint32{1, 1, 1, 1, 1, 1, 0}, 0, params[:11])
	c.want(invalidValue, "cuCtxSynchronize")
	c.launchShape(exact, [7]uint32{1, 1, 1, 32, 1, 1, 0}, 0, nil)
	c.want(invalidValue, "cuCtxSynchronize")
	c.launchOne(add, streamA, 0, 0)
	c.want(invalidHandle, "cuCtxSynchronize")
	c.must("cuCtxSynchronize")
}

// TestLibraries: a library needs no context. A library is a module in each context that asks for the library, with the
// settings of its kernels.
func TestLibraries(t *testing.T) {
	const dynamic = 8
	_, cs := attachProcess(t, newServer(t, 2), 1)
	c := cs[0]
	l := c.loadLibrary(kernels)
	add := c.callForNumber("cuLibraryGetKernel", l, "add")
	c.want(invalidContext, "cuKernelGetFunction", add)
	c.want(invalidContext, "cuLibraryGetModule", l)
	c.must("cuKernelSetAttribute", int32(dynamic), int32(70000), add, int32(1))
	c.want(invalidValue, "cuKernelSetAttribute", int32(dynamic), int32(math.MaxInt32), add, int32(1))
	c.want(invalidValue, "cuKernelSetAttribute", int32(0), int32(1), add, int32(1))
	c.want(invalidDevice, "cuKernelSetAttribute", int32(dynamic), int32(1), add, int32(2))
	for dev, want := range []int32{49152 - 512, 70000} {
		if got := c.must("cuKernelGetAttribute", int32(dynamic), add, int32(dev)); int32(binary.LittleEndian.Uint32(got)) != want {
			t.Errorf("device %d: %d bytes of dynamic shared memory, want %d", dev, binary.LittleEndian.Uint32(got), want)
		}
	}
	c.beginContext(ctxA, 0)
	first := c.callForNumber("cuKernelGetFunction", add)
	c.beginContext(ctxB, 1)
	second := c.callForNumber("cuKernelGetFunction", add)
	if first == second {
		t.Error("a function is used in two contexts")
	}
	if got := c.must("cuFuncGetAttribute", int32(dynamic), second); binary.LittleEndian.Uint32(got) != 70000 {
		t.Errorf("the value that was set is %d there", binary.LittleEndian.Uint32(got))
	}
	m := c.callForNumber("cuLibraryGetModule", l)
	c.want(notPermitted, "cuModuleUnload", m)
	if got := c.callForNumber("cuModuleGetFunction", m, "add"); got != second {
		t.Errorf("the function is %#x and %#x", got, second)
	}
	a := c.alloc(4)
	c.launchOne(add, 0, a, 1) // a kernel for its function
	if got := binary.LittleEndian.Uint32(c.readBytes(a, 4)); got != 6 {
		t.Errorf("the kernel wrote %d", got)
	}
	// The context goes, the library stays; then the library goes too.
	c.must("cuCtxDestroy_v2", uint64(ctxB))
	c.context = ctxA
	c.want(invalidHandle, "cuFuncGetAttribute", int32(0), second)
	c.must("cuFuncGetAttribute", int32(0), first)
	c.must("cuLibraryUnload", l)
	for symbol, h := range map[string]uint64{
		"cuLibraryUnload": l, "cuLibraryGetModule": l, "cuKernelGetFunction": add, "cuKernelGetLibrary": add, "cuFuncGetModule": first,
	} {
		c.want(invalidHandle, symbol, h)
	}
	c.must("cuCtxSynchronize")
}

// TestCodeNames: a handle of another class finds no object, and bytes that are no code are not loaded.
func TestCodeNames(t *testing.T) {
	s := newServer(t, 1)
	_, other := attachProcess(t, s, 1)
	other[0].beginContext(ctxB, 0)
	theirs := other[0].loadModule(kernels)
	_, cs := attachProcess(t, s, 1)
	c := cs[0]
	c.want(invalidContext, "module_load", []byte(kernels), uint64(len(kernels)), uint64(0), uint64(0), uint32(0), uint32(0), uint32(0))
	c.beginContext(ctxA, 0)
	c.want(invalidHandle, "cuModuleUnload", theirs)
	for _, tt := range []struct {
		image string
		want  int32
	}{
		{"", invalidImage}, {"x", invalidImage}, {"\x7fELF", invalidImage}, {"\x7fELF" + strings.Repeat("\x00", 14) + "\xbe" + strings.Repeat("\x00", 100), 209}, {"\x50\xed\x55\xba", invalidImage},
		{"\xb1\x43\x62\x46 a wrapper has no place in a message", invalidImage},
		{".version 7.0\n.target sm_70\n.address_size 64\n.entry", invalidPTX},
		{".version 7.0\n.target sm_70\n.address_size 64\n.global .b8 x[99999999999];", 0},
	} {
		r, _ := c.call("module_load", []byte(tt.image), uint64(len(tt.image)), uint64(0), uint64(0), uint32(0), uint32(0), uint32(0))
		if tt.want != 0 && r != tt.want || r == 0 {
			t.Errorf("%q: %d, want %d", tt.image, r, tt.want)
		}
	}
	l := c.loadLibrary(kernels)
	for _, h := range []uint64{0, 1, 2, ctxA, l, math.MaxUint64, handles.ModuleClass.Handle(99), handles.FunctionClass.Handle(1), handles.KernelClass.Handle(1)} {
		c.want(invalidHandle, "cuModuleGetFunction", h, "add")
		c.want(invalidHandle, "cuModuleUnload", h)
		c.want(invalidHandle, "cuModuleEnumerateFunctions", uint32(4), h)
		c.want(invalidHandle, "function_facts", h, uint32(1000))
		c.want(invalidHandle, "cuFuncSetAttribute", h, int32(8), int32(8))
		c.want(invalidHandle, "cuFuncGetParamInfo", h, uint64(math.MaxUint64), uint8(1))
		c.want(invalidHandle, "cuKernelSetAttribute", int32(8), int32(8), h, int32(0))
		c.want(invalidHandle, "cuKernelGetParamInfo", h, uint64(0), uint8(1))
		c.want(invalidHandle, "cuOccupancyMaxActiveBlocksPerMultiprocessor", h, int32(1), uint64(0))
		c.want(invalidHandle, "cuOccupancyAvailableDynamicSMemPerBlock", h, int32(1), int32(1))
		c.want(invalidHandle, "cuLinkDestroy", h)
		if h != l {
			c.want(invalidHandle, "cuLibraryGetKernel", h, "add")
			c.want(invalidHandle, "cuLibraryUnload", h)
		}
	}
	add := c.callForNumber("cuModuleGetFunction", c.loadModule(kernels), "add")
	for _, tt := range []struct {
		want   int32
		symbol string
		args   []any
	}{
		{invalidValue, "cuFuncGetAttribute", []any{int32(-1), add}},
		{invalidValue, "cuFuncGetAttribute", []any{int32(math.MaxInt32), add}},
		{invalidValue, "cuFuncSetAttribute", []any{add, int32(8), int32(math.MinInt32)}},
		{invalidValue, "cuFuncSetCacheConfig", []any{add, int32(4)}},
		{invalidValue, "cuFuncGetParamInfo", []any{add, uint64(math.MaxUint64), uint8(1)}},
		{invalidValue, "cuOccupancyMaxActiveBlocksPerMultiprocessor", []any{add, int32(math.MinInt32), uint64(0)}},
		{ok, "cuOccupancyMaxActiveBlocksPerMultiprocessor", []any{add, int32(math.MaxInt32), uint64(math.MaxUint64)}},
		{invalidValue, "cuOccupancyAvailableDynamicSMemPerBlock", []any{add, int32(33), int32(1)}},
		{ok, "cuOccupancyAvailableDynamicSMemPerBlock", []any{add, int32(16), int32(128)}},
		{notFound, "cuLibraryGetKernel", []any{l, ""}},
		{notFound, "cuLibraryGetGlobal", []any{uint8(0), uint8(0), l, "none"}},
	} {
		c.want(tt.want, tt.symbol, tt.args...)
	}
	c.must("cuCtxSynchronize")
}

// TestLinker: parts become a single image. The program gets the image as often as there is room.
func TestLinker(t *testing.T) {
	const ptx = 1
	_, cs := attachProcess(t, newServer(t, 1), 1)
	c := cs[0]
	none := []any{uint64(0), uint64(0), uint32(0)}
	c.want(invalidContext, "link_create", none...)
	c.beginContext(ctxA, 0)
	state := c.callForNumber("link_create", none...)
	add := func(kind int32, data string) (int32, []byte) {
		return c.call("link_add", state, kind, []byte(data), uint64(len(data)), "part", uint64(0), uint64(0), uint32(0), uint32(99), uint32(99))
	}
	if r, _ := c.call("link_complete", state, uint64(0), uint32(0), uint32(0)); r != invalidValue {
		t.Errorf("nothing is linked: %d", r)
	}
	for _, tt := range []struct {
		kind int32
		data string
		want int32
	}{
		{ptx, "", invalidImage}, {ptx, "no code", invalidImage}, {0, "\x7fELF", invalidImage}, {5, kernels, notSupported}, {-1, kernels, invalidValue},
		{ptx, kernels, ok},
	} {
		if r, _ := add(tt.kind, tt.data); r != tt.want {
			t.Errorf("add %d %.10q: %d, want %d", tt.kind, tt.data, r, tt.want)
		}
	}
	// The answer: an image of no bytes, its length, two empty texts, the time.
	out := c.must("link_complete", state, uint64(0), uint32(0), uint32(0))
	n := binary.LittleEndian.Uint64(out[24:])
	if binary.LittleEndian.Uint64(out) != 0 || n < uint64(len(kernels)) {
		t.Fatalf("link_complete = % x, want 0 and at least the bytes of kernels", out)
	}
	for range 2 {
		out = c.must("link_complete", state, n, uint32(0), uint32(0))
		if binary.LittleEndian.Uint64(out) != n {
			t.Fatalf("an image of %d bytes, not %d", binary.LittleEndian.Uint64(out), n)
		}
	}
	c.callForNumber("cuModuleGetFunction", c.loadModule(string(out[8:][:n])), "add")
	if r, _ := add(ptx, kernels); r != invalidValue {
		t.Errorf("a part is added to what is linked: %d", r)
	}
	c.must("cuLinkDestroy", state)
	c.want(invalidHandle, "link_complete", state, n, uint32(0), uint32(0))
}
