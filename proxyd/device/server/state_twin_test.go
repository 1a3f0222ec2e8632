// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// twin is a program that runs undisturbed on a server and, a second time, on servers between which the program is
// moved. Both runs must get the same answers.
type twin struct {
	t     *testing.T
	r     *rand.Rand
	c     [2]*client
	s     *Server // of the run that is moved
	to    Folder
	moves int    // how often the program was moved
	last  string // the save of the last move
	n     uint64 // handles made
	ctxs  []uint64
	// Of any context, ended or not.
	streams, events, memory, pools, ranges, modules, functions, libraries, kernels, graphs, execs []uint64
	log                                                                                           []string
}

func newTwin(t *testing.T) *twin {
	t.Helper()
	w := &twin{t: t, s: serverOf(t, "test", nil, testMemory, testMemory), to: Folder(t.TempDir())}
	_, quiet := attachProcess(t, serverOf(t, "test", nil, testMemory, testMemory), 1)
	_, moved := attachProcess(t, w.s, 1)
	w.c = [2]*client{quiet[0], moved[0]}
	return w
}

// moveRun saves the run that is moved, and has another server take the place of its server.
func (w *twin) moveRun() {
	w.t.Helper()
	o := SaveOptions{}
	if w.moves%2 == 1 {
		o.Upon = w.last
	}
	r := saveJob(w.t, w.s, w.to, o)
	w.last = r.ID
	next := serverOf(w.t, "other", []int{1 - w.moves%2, w.moves % 2}, testMemory, testMemory)
	replaceServer(w.t, w.s, r, w.to, next)
	w.s = next
	w.moves++
}

// callBoth makes a call on both and compares the answers.
func (w *twin) callBoth(symbol string, args ...any) (int32, []byte) {
	w.t.Helper()
	for _, c := range w.c {
		c.context = w.c[0].context
	}
	r, out := w.c[0].call(symbol, args...)
	r2, out2 := w.c[1].call(symbol, args...)
	if r == statusGone {
		w.t.Fatalf("%s%x: the process is gone", symbol, args)
	}
	w.log = append(w.log, fmt.Sprintf("%s %x %x = %d %x", symbol, w.c[0].context, args, r, out))
	if r != r2 || !bytes.Equal(out, out2) {
		w.t.Fatalf("%s%x: %d %x, after restores %d %x\n%s", symbol, args, r, out, r2, out2, strings.Join(w.log[max(0, len(w.log)-60):], "\n"))
	}
	return r, out
}

func (w *twin) postBoth(symbol string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%s %x %x", symbol, w.c[0].context, args))
	for _, c := range w.c {
		c.context = w.c[0].context
		c.post(symbol, args...)
	}
}

// waitForStream waits for the work on a stream, which may belong to a context that is not current.
func (w *twin) waitForStream(stream uint64) {
	w.t.Helper()
	w.callBoth("cuStreamSynchronize", stream)
	w.callBoth("cuCtxSynchronize")
}

func (w *twin) newHandle() uint64 { w.n++; return 0x50000 + w.n }

func pickHandle(r *rand.Rand, all []uint64) uint64 {
	if len(all) == 0 {
		return 0
	}
	all = all[max(0, len(all)-8):] // most are alive
	return all[r.IntN(len(all))]
}

// useContext makes a random context current.
func (w *twin) useContext() { w.c[0].context = pickHandle(w.r, w.ctxs) }

func u64(b []byte) uint64 {
	if len(b) < 8 {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

// loadCode loads code on both. How long that took is no matter.
func (w *twin) loadCode(symbol string, args ...any) uint64 {
	w.t.Helper()
	w.c[1].context = w.c[0].context
	r1, a := w.c[0].call(symbol, args...)
	r2, b := w.c[1].call(symbol, args...)
	w.log = append(w.log, fmt.Sprintf("%s %x = %d %x", symbol, w.c[0].context, r1, a[:24]))
	if r1 != r2 || !bytes.Equal(a[:24], b[:24]) {
		w.t.Fatalf("%s: %d %x, after restores %d %x\n%s", symbol, r1, a, r2, b, strings.Join(w.log[max(0, len(w.log)-60):], "\n"))
	}
	return u64(a[16:])
}

// callForHandle makes a call that answers with a handle.
func (w *twin) callForHandle(to *[]uint64, symbol string, args ...any) {
	w.t.Helper()
	if r, out := w.callBoth(symbol, args...); r == 0 {
		*to = append(*to, u64(out))
	}
}

func (w *twin) second(symbol string, args ...any) []byte {
	_, out := w.callBoth(symbol, args...)
	return out
}

// makeNode makes a node of a call, of no graph's nodes dependent.
func (w *twin) makeNode(symbol string, args ...any) []byte {
	w.t.Helper()
	return w.nodeOf(pickHandle(w.r, w.graphs), symbol, args...)
}

func (w *twin) nodeOf(graph uint64, symbol string, args ...any) []byte {
	w.t.Helper()
	return w.nodeBehind(graph, nil, symbol, args...)
}

// nodeBehind is nodeOf for a node that depends on other nodes.
func (w *twin) nodeBehind(graph uint64, deps []uint64, symbol string, args ...any) []byte {
	w.t.Helper()
	op, b := w.c[0].encodeMessage(symbol, args)
	b = b[8:]
	_, out := w.callBoth("captured", joinLists([]any{w.newHandle(), graph}, dependencyList(deps...), []any{uint64(0), uint32(0), op, b, uint64(len(b)), uint64(8)})...)
	return out
}

// playStep makes a random call on both.
func (w *twin) playStep() {
	r := w.r
	switch r.IntN(45) {
	case 0:
		if h := w.newHandle(); len(w.ctxs) < 4 {
			if res, _ := w.callBoth("cuCtxCreate_v2", h, uint32(r.IntN(2)), int32(r.IntN(2))); res == 0 {
				w.ctxs = append(w.ctxs, h)
			}
		}
	case 1:
		if len(w.ctxs) > 2 {
			i := r.IntN(len(w.ctxs))
			w.callBoth("cuCtxDestroy_v2", w.ctxs[i])
			w.ctxs = append(w.ctxs[:i], w.ctxs[i+1:]...)
			w.useContext()
		}
	case 2:
		dev := int32(r.IntN(2))
		w.callBoth("cuDevicePrimaryCtxRetain", uint64(0x40001+dev), dev)
		w.callBoth("cuDevicePrimaryCtxGetState", dev)
	case 3:
		w.callBoth([]string{"cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxReset_v2"}[r.IntN(5)/4], int32(r.IntN(2)))
	case 4:
		w.callBoth("cuDevicePrimaryCtxSetFlags_v2", int32(r.IntN(2)), uint32(r.IntN(3)))
	case 5, 6:
		h := w.newHandle()
		w.callBoth("cuStreamCreateWithPriority", h, uint32(r.IntN(2)), int32(-r.IntN(6)))
		w.streams = append(w.streams, h)
	case 7:
		w.callBoth("cuStreamDestroy_v2", pickHandle(r, w.streams))
	case 8:
		w.callBoth([]string{"cuStreamGetId", "cuStreamGetPriority", "cuStreamGetFlags", "cuStreamGetDevice"}[r.IntN(4)], pickHandle(r, w.streams))
		w.callBoth("cuStreamGetId", uint64(r.IntN(3)))
		w.callBoth("cuCtxGetId", pickHandle(r, w.ctxs))
	case 9:
		streams := append([]uint64{uint64(r.IntN(3))}, w.streams...)
		w.callBoth("cuStreamSetAttribute", pickHandle(r, streams), int32(3), [8]uint64{uint64(r.IntN(3))})
		w.callBoth("cuStreamCopyAttributes", pickHandle(r, streams), pickHandle(r, streams))
		for _, s := range []uint64{0, 1, 2, pickHandle(r, w.streams)} {
			w.callBoth("cuStreamGetAttribute", s, int32(3))
		}
	case 10:
		h := w.newHandle()
		w.callBoth("cuEventCreate", h, uint32([]int{0, 2}[r.IntN(2)]))
		w.events = append(w.events, h)
	case 11:
		w.callBoth("cuEventDestroy_v2", pickHandle(r, w.events))
	case 12, 13:
		e := pickHandle(r, w.events)
		w.postBoth("cuEventRecord", e, pickHandle(r, w.streams))
		w.callBoth("cuEventSynchronize", e)
		w.callBoth("cuCtxSynchronize")
	case 14:
		a, b := pickHandle(r, w.events), pickHandle(r, w.events)
		w.callBoth("cuEventQuery", a)
		// The times differ. Both runs must get a time.
		r1, _ := w.c[0].call("cuEventElapsedTime", a, b)
		r2, _ := w.c[1].call("cuEventElapsedTime", a, b)
		if r1 != r2 {
			w.t.Fatalf("elapsed time: %d, after restores %d", r1, r2)
		}
	case 15, 16, 17:
		sizes := []uint64{1, 100, 5000, 1 << 20, 3 << 20, 5 << 20}
		res, out := w.callBoth("cuMemAlloc_v2", sizes[r.IntN(len(sizes))])
		if res == 0 {
			w.memory = append(w.memory, u64(out))
		}
	case 18:
		if a := pickHandle(r, w.memory); a != 0 {
			w.callBoth("cuMemFree_v2", a)
		}
	case 19, 20:
		a, s := pickHandle(r, w.memory), pickHandle(r, w.streams)
		w.postBoth("cuMemsetD8Async", a, uint8(r.IntN(256)), uint64(1+r.IntN(100)), s)
		w.waitForStream(s)
	case 21:
		b := make([]byte, 1+r.IntN(300))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		s := pickHandle(r, w.streams)
		w.postBoth("copy_in", pickHandle(r, w.memory), b, uint64(len(b)), s)
		w.waitForStream(s)
	case 22, 23:
		w.callBoth("copy_out", pickHandle(r, w.memory)+uint64(r.IntN(3)), uint64(1+r.IntN(200)), pickHandle(r, w.streams))
	case 24:
		w.callBoth("cuMemGetInfo_v2")
		w.callBoth("cuMemGetAddressRange_v2", true, true, pickHandle(r, w.memory))
	case 25:
		res, out := w.callBoth("cuMemPoolCreate", int32(1), int32(0), int32(1), int32(r.IntN(2)), uint64(0), uint64(0), [56]byte{})
		if res == 0 {
			w.pools = append(w.pools, u64(out))
		}
	case 26:
		w.callBoth("cuMemPoolDestroy", pickHandle(r, w.pools))
	case 27:
		w.callBoth("cuDeviceGetDefaultMemPool", int32(r.IntN(2)))
		w.callBoth("cuDeviceGetMemPool", int32(r.IntN(2)))
		w.callBoth("cuDeviceSetMemPool", int32(r.IntN(2)), pickHandle(r, w.pools))
	case 28:
		w.callBoth("pool_set", pickHandle(r, w.pools), int32(4), r.Uint64N(1000))
		w.callBoth("pool_get", pickHandle(r, w.pools), int32(4))
	case 29:
		s := pickHandle(r, w.streams)
		res, out := w.callBoth("cuMemAllocFromPoolAsync", uint64(1+r.IntN(10000)), pickHandle(r, w.pools), s)
		if res == 0 {
			w.memory = append(w.memory, u64(out))
		}
		w.waitForStream(s)
	case 30:
		if res, out := w.callBoth("cuMemAddressReserve", uint64(4*backend.Granule), uint64(0), uint64(0), uint64(0)); res == 0 {
			w.ranges = append(w.ranges, u64(out))
		}
	case 31:
		a := uint64(r.IntN(1000)+1) << 21
		w.callBoth("host_alloc", a, uint64(4096), uint32(r.IntN(4)))
		w.callBoth("host_free", uint64(r.IntN(1000)+1)<<21)
	case 32:
		w.callBoth("cuCtxSetLimit", int32(0), uint64(1024+r.IntN(1000)))
		w.callBoth("cuCtxGetLimit", int32(0))
		w.callBoth("cuCtxSetCacheConfig", int32(r.IntN(4)))
		w.callBoth("cuCtxGetCacheConfig")
	case 33:
		w.callBoth("cuCtxEnablePeerAccess", pickHandle(r, w.ctxs), uint32(0))
		w.callBoth("cuCtxDisablePeerAccess", pickHandle(r, w.ctxs))
		w.callBoth("cuCtxEnablePeerAccess", pickHandle(r, w.ctxs), uint32(0))
	case 34:
		if h := w.loadCode("module_load", []byte(kernels), uint64(len(kernels)), uint64(0), uint64(0), uint32(0), uint32(0), uint32(0)); h != 0 {
			w.modules = append(w.modules, h)
		}
	case 35:
		if h := w.loadCode("library_load", []byte(kernels), uint64(len(kernels)), uint64(0), uint64(0), uint32(0), uint64(0), uint64(0), uint32(0), uint32(0), uint32(0)); h != 0 {
			w.libraries = append(w.libraries, h)
		}
	case 36:
		w.callBoth([]string{"cuModuleUnload", "cuLibraryUnload"}[r.IntN(2)], pickHandle(r, [][]uint64{w.modules, w.libraries}[r.IntN(2)]))
	case 37:
		w.callForHandle(&w.functions, "cuModuleGetFunction", pickHandle(r, w.modules), "add")
		w.callForHandle(&w.kernels, "cuLibraryGetKernel", pickHandle(r, w.libraries), []string{"add", "exact"}[r.IntN(2)])
		w.callForHandle(&w.functions, "cuKernelGetFunction", pickHandle(r, w.kernels))
		w.callForHandle(&w.modules, "cuLibraryGetModule", pickHandle(r, w.libraries))
	case 38:
		w.callBoth("cuFuncSetAttribute", pickHandle(r, w.functions), int32(8), int32(r.IntN(70000)))
		w.callBoth("cuFuncGetAttribute", int32(8), pickHandle(r, w.functions))
		w.callBoth("cuKernelSetAttribute", int32(8), int32(r.IntN(70000)), pickHandle(r, w.kernels), int32(r.IntN(2)))
		w.callBoth("cuKernelGetAttribute", int32(8), pickHandle(r, w.kernels), int32(r.IntN(2)))
	case 39:
		// A variable is set, and a kernel adds the variable to its argument.
		for _, out := range [][]byte{
			w.second("cuModuleGetGlobal_v2", true, true, pickHandle(r, w.modules), "step"), w.second("cuLibraryGetGlobal", true, true, pickHandle(r, w.libraries), "step"),
		} {
			if len(out) >= 8 {
				w.postBoth("copy_in", u64(out), []byte{byte(r.IntN(256)), 0, 0, 0}, uint64(4), uint64(0))
				w.waitForStream(0)
			}
		}
		if res, out := w.callBoth("cuMemAlloc_v2", uint64(4)); res == 0 {
			a := u64(out)
			w.memory = append(w.memory, a)
			f := pickHandle(r, [][]uint64{w.functions, w.kernels}[r.IntN(2)])
			params := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, a), r.Uint32())
			w.postBoth("launch", f, [7]uint32{1, 1, 1, 1, 1, 1, 0}, uint64(0), params, uint32(len(params)))
			w.callBoth("cuCtxSynchronize")
			w.callBoth("copy_out", a, uint64(4), uint64(0))
		}
	case 40:
		h := w.newHandle()
		w.callBoth("cuGraphCreate", h, uint32(0))
		w.graphs = append(w.graphs, h)
	case 41, 42:
		s := pickHandle(r, append([]uint64{0}, w.streams...))
		if out := w.makeNode("cuMemAllocAsync", uint64(1+r.IntN(3<<20)), s); len(out) >= 16 {
			w.memory = append(w.memory, u64(out[8:]))
		}
		w.makeNode("cuMemFreeAsync", pickHandle(r, w.memory), s)
	case 43:
		if res, out := w.callBoth("graph_instantiate", pickHandle(r, w.graphs), paramsWithFlags(uint64(r.IntN(2))), uint32(256)); res == 0 {
			w.execs = append(w.execs, u64(out[8:]))
		}
		w.callBoth([]string{"cuGraphDestroy", "graph_exec_destroy"}[r.IntN(2)], pickHandle(r, [][]uint64{w.graphs, w.execs}[r.IntN(2)]))
	case 44:
		w.postBoth("graph_launch", pickHandle(r, w.execs), uint64(0))
		w.callBoth("cuCtxSynchronize")
		w.callBoth("cuMemGetInfo_v2")
	}
	if w.r.IntN(8) == 0 || w.c[0].context == 0 {
		w.useContext()
	}
}

// TestTwins: a program makes the same calls on an undisturbed server and on a server that is saved, ended and
// replaced again and again, each time with the devices in another order. Both get the same answers.
func TestTwins(t *testing.T) {
	rounds, steps := 8, 80
	if testing.Short() {
		rounds = 3
	}
	for seed := range 3 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newTwin(t)
			w.r = rand.New(rand.NewPCG(uint64(seed), 7))
			for range rounds {
				for range steps {
					w.playStep()
				}
				w.moveRun()
			}
		})
	}
}

// TestTwinsCaptured: a graph that was captured from a stream is restored although the stream, or the stream's context, has ended.
func TestTwinsCaptured(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(w *twin, stream uint64)
		want int32 // of a launch
	}{
		{"the stream is there", func(*twin, uint64) {}, ok},
		{"the stream was destroyed", func(w *twin, stream uint64) { w.callBoth("cuStreamDestroy_v2", stream) }, ok},
		{"the stream's context was destroyed", func(w *twin, _ uint64) { w.callBoth("cuCtxDestroy_v2", uint64(ctxB)) }, int32(dispatch.ResultContextIsDestroyed)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newTwin(t)
			w.callBoth("cuCtxCreate_v2", uint64(ctxA), uint32(0), int32(0))
			w.callBoth("cuCtxCreate_v2", uint64(ctxB), uint32(0), int32(1))
			w.c[0].context = ctxB
			_, out := w.callBoth("cuMemAlloc_v2", uint64(4096))
			stream := w.newHandle()
			w.callBoth("cuStreamCreate", stream, uint32(1))
			// The stream's context is not the context that is current.
			w.c[0].context = ctxA
			graph, exec := w.makeExecutable("cuMemsetD8Async", u64(out), uint8(7), uint64(100), stream)
			tc.end(w, stream)
			w.moveRun()
			w.moveRun()
			w.callBoth("graph_instantiate", graph, paramsWithFlags(0), uint32(256))
			w.c[0].context = ctxB
			if r, _ := w.callBoth("graph_launch", exec, uint64(0)); r != tc.want {
				t.Errorf("a launch: %d, want %d", r, tc.want)
			}
			w.callBoth("cuCtxSynchronize")
			w.callBoth("copy_out", u64(out), uint64(200), uint64(0))
		})
	}
}

// TestTwinsKernel: a library's kernel has its code's attributes, also after a context's function was set otherwise.
func TestTwinsKernel(t *testing.T) {
	w := newTwin(t)
	w.callBoth("cuCtxCreate_v2", uint64(ctxA), uint32(0), int32(0))
	w.c[0].context = ctxA
	l := w.loadCode("library_load", []byte(kernels), uint64(len(kernels)), uint64(0), uint64(0), uint32(0), uint64(0), uint64(0), uint32(0), uint32(0), uint32(0))
	_, out := w.callBoth("cuLibraryGetKernel", l, "add")
	kernel := u64(out)
	_, out = w.callBoth("cuKernelGetFunction", kernel)
	function := u64(out)
	_, out = w.callBoth("cuFuncGetAttribute", int32(8), function)
	compiled := int32(binary.LittleEndian.Uint32(out))
	asked := func(want int32) {
		t.Helper()
		_, out := w.callBoth("cuKernelGetAttribute", int32(8), kernel, int32(0))
		if got := int32(binary.LittleEndian.Uint32(out)); got != want {
			t.Errorf("%d bytes of dynamic shared memory, want %d", got, want)
		}
	}
	w.callBoth("cuFuncSetAttribute", function, int32(8), int32(5000))
	asked(compiled)
	w.callBoth("cuFuncSetAttribute", function, int32(8), int32(6000))
	w.moveRun()
	asked(compiled)
	w.callBoth("cuFuncGetAttribute", int32(8), function)
	w.callBoth("cuKernelSetAttribute", int32(8), int32(7000), kernel, int32(0))
	w.moveRun()
	asked(7000)
	w.callBoth("cuFuncGetAttribute", int32(8), function)
}
