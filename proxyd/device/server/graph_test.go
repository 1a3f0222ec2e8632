// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/backendtest"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/graphs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/handles"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/memory"
)

// The handles of graphs that tests make up.
const (
	graphA = 0x40001
	graphB = 0x40002
	nodeA  = 0x50000
)

// graphRig is a client with a context, a stream, memory, a kernel and a graph.
type graphRig struct {
	*client
	thread *client // another thread of the program
	a      uint64
	add    uint64 // adds a number to a word
}

func newGraphRig(t *testing.T) *graphRig {
	_, cs := attachProcess(t, newServer(t, 1), 2)
	r := &graphRig{client: cs[0], thread: cs[1]}
	r.beginContext(ctxA, 0)
	r.must("cuStreamCreate", uint64(streamA), uint32(0))
	r.a = r.alloc(256)
	out := r.must("module_load", []byte(backendtest.Kernels), uint64(len(backendtest.Kernels)), []byte{}, []byte{}, uint32(0), uint32(0), uint32(0))
	module := binary.LittleEndian.Uint64(out[16:]) // behind two empty texts
	r.add = r.callForNumber("cuModuleGetFunction", module, "add")
	r.must("cuGraphCreate", uint64(graphA), uint32(0))
	return r
}

// argsOfAdd are the parameters of add.
func (r *graphRig) argsOfAdd(at uint64, v uint32) []byte {
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, at), v)
}

// dependencyList is a list of dependencies in a message, and its length.
func dependencyList(deps ...uint64) (list []any) {
	list = append(list, uint64(len(deps)))
	for _, d := range deps {
		list = append(list, d)
	}
	return append(list, uint64(len(deps)))
}

func joinLists(lists ...[]any) (all []any) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// encodeShape encodes the launch of a kernel of a single thread.
func (r *graphRig) encodeShape(at uint64, v uint32) []any {
	p := r.argsOfAdd(at, v)
	return []any{r.add, uint64(0), uint64(ctxA), uint32(1), uint32(1), uint32(1), uint32(1), uint32(1), uint32(1), uint32(0), p, uint32(len(p))}
}

func (r *graphRig) addKernel(node uint64, at uint64, v uint32, deps ...uint64) {
	r.t.Helper()
	r.must("graph_add_kernel", joinLists([]any{node, uint64(graphA)}, dependencyList(deps...), r.encodeShape(at, v))...)
}

// checkCaptured sends a call that has become a node of a graph.
func (r *graphRig) checkCaptured(want int32, node, graph uint64, deps []uint64, room uint64, symbol string, args ...any) []byte {
	r.t.Helper()
	op, b := r.encodeMessage(symbol, args)
	b = b[8:]
	return r.want(want, "captured", joinLists([]any{node, graph}, dependencyList(deps...), []any{uint64(0), uint32(0), op, b, uint64(len(b)), room})...)
}

func (r *graphRig) instantiateGraph(graph uint64) uint64 {
	r.t.Helper()
	out := r.must("graph_instantiate", graph, paramsWithFlags(0), uint32(256))
	return binary.LittleEndian.Uint64(out[8:]) // behind an empty text
}

// paramsWithFlags is CUDA_GRAPH_INSTANTIATE_PARAMS with these flags.
func paramsWithFlags(flags uint64) [32]byte {
	var b [32]byte
	binary.LittleEndian.PutUint64(b[:], flags)
	return b
}

func (r *graphRig) launchGraph(exec uint64) {
	r.t.Helper()
	r.post("graph_launch", exec, uint64(streamA))
	r.must("cuStreamSynchronize", uint64(streamA))
}

func (r *graphRig) readWords(n int) []uint32 {
	r.t.Helper()
	b := r.readBytes(r.a, uint64(4*n))
	out := make([]uint32, n)
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return out
}

func (r *graphRig) checkWords(name string, want ...uint32) {
	r.t.Helper()
	got := r.readWords(len(want))
	for i := range want {
		if got[i] != want[i] {
			r.t.Errorf("%s: %v, want %v", name, got, want)
			return
		}
	}
}

// TestGraphOfNodes: a graph made node by node, launched, changed, looked at.
func TestGraphOfNodes(t *testing.T) {
	r := newGraphRig(t)
	r.addKernel(nodeA, r.a, 1)
	r.addKernel(nodeA+1, r.a, 10, nodeA)
	set := [5]uint64{r.a + 8, 0, 7 | 4<<32, 2, 1} // CUDA_MEMSET_NODE_PARAMS: two words of 7
	r.must("cuGraphAddMemsetNode", joinLists([]any{uint64(nodeA + 2), uint64(graphA)}, dependencyList(nodeA), []any{set, uint64(ctxA)})...)
	r.must("cuGraphAddEmptyNode", joinLists([]any{uint64(nodeA + 3), uint64(graphA)}, dependencyList(nodeA+1, nodeA+2))...)
	x := r.instantiateGraph(graphA)
	r.launchGraph(x)
	r.launchGraph(x)
	r.checkWords("two launches", 22, 0, 7, 7)

	// A node of the executable graph, and a node of the graph.
	r.must("graph_exec_kernel", joinLists([]any{x, uint64(nodeA)}, r.encodeShape(r.a, 100))...)
	r.must("graph_set_kernel", joinLists([]any{uint64(nodeA)}, r.encodeShape(r.a, 1000))...)
	r.must("cuGraphNodeSetEnabled", x, uint64(nodeA+1), uint32(0))
	r.launchGraph(x)
	r.checkWords("one node set, one off", 122)
	r.must("cuGraphNodeSetEnabled", x, uint64(nodeA+1), uint32(1))
	r.must("graph_update", x, uint64(graphA))
	r.launchGraph(x)
	r.checkWords("updated", 1132)

	out := r.must("graph_get_kernel", uint64(nodeA), uint32(100))
	if want := r.argsOfAdd(r.a, 1000); string(out[8:8+len(want)]) != string(want) {
		t.Errorf("parameters %x, want %x", out[8:8+len(want)], want)
	}
	if got := r.must("cuGraphMemsetNodeGetParams", uint64(nodeA+2)); binary.LittleEndian.Uint64(got) != r.a+8 {
		t.Errorf("parameters of a set: %x", got)
	}
	if n := binary.LittleEndian.Uint64(r.must("cuGraphGetEdges", uint64(graphA), uint8(0), uint8(0), uint64(0))); n != 4 {
		t.Errorf("%d edges", n)
	}
	if out := r.must("cuGraphGetRootNodes", uint64(graphA), uint8(1), uint64(2)); binary.LittleEndian.Uint64(out[8:]) != nodeA || out[len(out)-8] != 1 {
		t.Errorf("root nodes %x", out)
	}
	if out := r.must("graph_dot", uint64(graphA), uint32(0), uint64(4000)); !strings.Contains(string(out), "KERNEL") {
		t.Errorf("dot: %s", out)
	}
	r.must("cuGraphDestroy", uint64(graphA))
	r.want(invalidValue, "cuGraphNodeGetType", uint64(nodeA))
	r.launchGraph(x)
	r.must("graph_exec_destroy", x)
	r.want(invalidHandle, "graph_exec_destroy", x)
}

// TestGraphTopology: an update of another shape is refused, and the answer has the difference.
func TestGraphTopology(t *testing.T) {
	r := newGraphRig(t)
	r.addKernel(nodeA, r.a, 1)
	x := r.instantiateGraph(graphA)
	failure := int32(dispatch.ResultGraphExecUpdateFailure)
	for _, tc := range []struct {
		name   string
		add    func()
		result uint32
	}{
		{"no nodes", func() {}, graphs.UpdateTopology},
		{"another type", func() {
			r.must("cuGraphAddEmptyNode", joinLists([]any{uint64(nodeA + 9), uint64(graphB)}, dependencyList())...)
		}, graphs.UpdateType},
	} {
		r.must("cuGraphCreate", uint64(graphB), uint32(0))
		tc.add()
		if out := r.want(failure, "graph_update", x, uint64(graphB)); binary.LittleEndian.Uint32(out) != tc.result {
			t.Errorf("%s: result of graph_update = %x", tc.name, out)
		}
		r.must("cuGraphDestroy", uint64(graphB))
	}
	r.launchGraph(x)
	r.checkWords("as it was", 1)
	// Dependencies: not twice, not in a circle, not of another graph.
	r.addKernel(nodeA+1, r.a, 1, nodeA)
	edge := func(symbol string, want int32, from, to uint64) {
		r.want(want, symbol, uint64(graphA), uint64(1), from, uint64(1), to, uint64(1))
	}
	edge("cuGraphAddDependencies", invalidValue, nodeA, nodeA+1)
	edge("cuGraphAddDependencies", invalidValue, nodeA+1, nodeA)
	edge("cuGraphAddDependencies", invalidValue, nodeA, nodeA+7)
	edge("cuGraphRemoveDependencies", ok, nodeA, nodeA+1)
	edge("cuGraphRemoveDependencies", invalidValue, nodeA, nodeA+1)
	edge("cuGraphAddDependencies", ok, nodeA+1, nodeA)
	r.must("cuGraphDestroyNode", uint64(nodeA))
	r.want(invalidValue, "cuGraphDestroyNode", uint64(nodeA))
}

// TestCapturedCalls: calls that became nodes do their work at each launch, and not before.
func TestCapturedCalls(t *testing.T) {
	r := newGraphRig(t)
	text := []byte("0123456789abcdef")
	at := uint64(uintptr(unsafe.Pointer(&text[0])))
	p := r.argsOfAdd(r.a, 5)
	r.checkCaptured(ok, nodeA, graphA, nil, 0, "launch", r.add, uint32(1), uint32(1), uint32(1), uint32(1), uint32(1), uint32(1), uint32(0), uint64(streamA), p, uint32(len(p)))
	r.checkCaptured(ok, nodeA+1, graphA, []uint64{nodeA}, 0, "cuMemsetD32Async", r.a+4, uint32(9), uint64(1), uint64(streamA))
	r.checkCaptured(ok, nodeA+2, graphA, []uint64{nodeA}, 0, "cuMemcpyHtoDAsync_v2", r.a+16, at, uint64(16), uint64(streamA))
	r.checkCaptured(ok, nodeA+3, graphA, []uint64{nodeA + 2}, 0, "cuStreamWriteValue32_v2", uint64(streamA), r.a+8, uint32(3), uint32(0))
	r.checkCaptured(ok, nodeA+4, graphA, nil, 0, "host_func", uint64(streamA), uint64(77))
	r.checkCaptured(ok, nodeA+5, graphA, nil, 0, "cuMemcpyDtoDAsync_v2", r.a, r.a, uint64(0), uint64(streamA))
	r.must("cuStreamSynchronize", uint64(0))
	r.checkWords("before a launch", 0, 0, 0)
	x := r.instantiateGraph(graphA)
	for i := range 2 {
		copy(text, strings.Repeat(string(rune('x'+i)), 16))
		r.post("graph_launch", x, uint64(streamA))
		if ticket, _, last := r.thread.nextFunction(); ticket != 77 || last != 0 {
			t.Errorf("ticket %d, last %d", ticket, last)
		}
		r.thread.post("host_func_done", uint64(77))
		r.must("cuStreamSynchronize", uint64(streamA))
		r.checkWords("a launch", uint32(5*(i+1)), 9, 3)
		if got := r.readBytes(r.a+16, 16); string(got) != string(text) {
			t.Errorf("%q was copied, not %q", got, text)
		}
	}
	for node, want := range map[uint64]uint32{
		nodeA: graphs.KernelNode, nodeA + 1: graphs.MemsetNode, nodeA + 2: graphs.MemcpyNode, nodeA + 3: graphs.BatchNode, nodeA + 4: graphs.HostNode, nodeA + 5: graphs.MemcpyNode,
	} {
		if got := binary.LittleEndian.Uint32(r.must("cuGraphNodeGetType", node)); got != want {
			t.Errorf("node %x has type %d, want %d", node, got, want)
		}
	}
	if out := r.must("graph_get_kernel", uint64(nodeA), uint32(100)); binary.LittleEndian.Uint64(out[8+len(p):]) != r.add {
		t.Errorf("a captured kernel's parameters: %x", out)
	}
	out := r.must("cuGraphMemcpyNodeGetParams", uint64(nodeA+2))
	if kind, host := binary.LittleEndian.Uint32(out[32:]), binary.LittleEndian.Uint64(out[40:]); kind != memory.HostMemory || host != at {
		t.Errorf("a captured copy's parameters: %x", out)
	}

	// The launch of a graph within a graph, twice.
	r.must("cuGraphCreate", uint64(graphB), uint32(0))
	r.checkCaptured(ok, nodeA+20, graphB, nil, 0, "cuMemsetD32Async", r.a, uint32(0), uint64(1), uint64(streamA))
	r.must("cuGraphDestroyNode", uint64(nodeA+4))
	y := r.instantiateGraph(graphA)
	r.checkCaptured(ok, nodeA+21, graphB, []uint64{nodeA + 20}, 0, "graph_launch", y, uint64(streamA))
	r.checkCaptured(ok, nodeA+22, graphB, []uint64{nodeA + 21}, 0, "graph_launch", y, uint64(streamA))
	z := r.instantiateGraph(graphB)
	r.launchGraph(z)
	r.checkWords("graphs in a graph", 10)
	child := r.callForNumber("cuGraphChildGraphNodeGetGraph", uint64(nodeA+21))
	if n := binary.LittleEndian.Uint64(r.must("cuGraphGetNodes", child, uint8(0), uint64(0))); n != 5 {
		t.Errorf("the graph in a node has %d nodes", n)
	}
	r.want(invalidValue, "cuGraphDestroy", child)

	for _, tc := range []struct {
		name   string
		symbol string
		args   []any
		want   int32
	}{
		{"no stream", "cuMemAlloc_v2", []any{uint64(16)}, invalidValue},
		{"a question", "cuStreamQuery", []any{uint64(streamA)}, int32(dispatch.ResultStreamCaptureUnsupported)},
		{"a wait for a value", "cuStreamWaitValue32_v2", []any{uint64(streamA), r.a, uint32(1), uint32(0)}, int32(dispatch.ResultStreamCaptureUnsupported)},
		{"another stream", "cuMemsetD8Async", []any{r.a, uint8(1), uint64(1), uint64(0x2ffff)}, invalidHandle},
		{"not a message of it", "cuMemsetD8Async", []any{r.a}, invalidValue},
		{"memory of nobody", "cuMemFreeAsync", []any{r.a, uint64(streamA)}, invalidValue},
	} {
		r.checkCaptured(tc.want, nodeA+40, graphA, nil, 64, tc.symbol, tc.args...)
	}
	r.checkCaptured(invalidValue, nodeA+40, graphA, []uint64{nodeA + 20}, 0, "cuMemsetD8Async", r.a, uint8(1), uint64(1), uint64(streamA)) // of another graph
	r.checkCaptured(invalidHandle, nodeA, graphA, nil, 0, "cuMemsetD8Async", r.a, uint8(1), uint64(1), uint64(streamA))                    // the node is there
}

// TestClones: the nodes of a clone are found by their originals, and are nodes of their own.
func TestClones(t *testing.T) {
	r := newGraphRig(t)
	r.addKernel(nodeA, r.a, 1)
	r.must("cuGraphClone", uint64(graphB), uint64(graphA))
	n := r.callForNumber("cuGraphNodeFindInClone", uint64(nodeA), uint64(graphB))
	if n == nodeA {
		t.Error("the clone has the original's node")
	}
	r.must("graph_set_kernel", joinLists([]any{n}, r.encodeShape(r.a, 50))...)
	r.launchGraph(r.instantiateGraph(graphA))
	r.launchGraph(r.instantiateGraph(graphB))
	r.checkWords("the original and the clone", 51)
	r.want(invalidValue, "cuGraphNodeFindInClone", n, uint64(graphA))
	r.must("cuGraphDestroy", uint64(graphA))
	r.launchGraph(r.instantiateGraph(graphB))
	r.checkWords("the clone alone", 101)
}

// checkFootprint checks the four attributes of the memory of graphs.
func (r *graphRig) checkFootprint(when string, want ...uint64) {
	r.t.Helper()
	for attribute, n := range want {
		if got := r.callForNumber("cuDeviceGetGraphMemAttribute", int32(0), int32(attribute)); got != n {
			r.t.Errorf("%s: attribute %d of the memory of graphs is %d, want %d", when, attribute, got, n)
		}
	}
}

// TestGraphMemory: memory that a node allocates is allocated once, and has the same address in each launch.
func TestGraphMemory(t *testing.T) {
	r := newGraphRig(t)
	out := r.checkCaptured(ok, nodeA, graphA, nil, 8, "cuMemAllocAsync", uint64(4<<20), uint64(streamA))
	m := binary.LittleEndian.Uint64(out[8:])
	r.checkCaptured(ok, nodeA+1, graphA, []uint64{nodeA}, 0, "cuMemsetD32Async", m, uint32(6), uint64(4), uint64(streamA))
	r.checkCaptured(ok, nodeA+2, graphA, []uint64{nodeA + 1}, 0, "cuMemcpyDtoDAsync_v2", r.a, m, uint64(16), uint64(streamA))
	x := r.instantiateGraph(graphA)
	r.checkFootprint("made", 0, 0, 4<<20, 4<<20)
	r.want(invalidValue, "cuMemFree_v2", m) // not launched yet
	r.launchGraph(x)
	r.checkWords("through the memory", 6, 6)
	r.checkFootprint("launched", 4<<20, 4<<20, 4<<20, 4<<20)
	r.post("graph_launch", x, uint64(streamA))
	r.want(invalidValue, "cuStreamSynchronize", uint64(streamA)) // not freed
	r.must("cuMemFree_v2", m)
	r.want(invalidValue, "cuMemFree_v2", m)
	r.launchGraph(x)
	r.post("cuMemFreeAsync", m, uint64(streamA))
	r.launchGraph(x)
	r.must("cuMemFree_v2", m)
	r.want(notSupported, "cuGraphClone", uint64(graphB), uint64(graphA))
	r.want(notSupported, "graph_instantiate", uint64(graphA), paramsWithFlags(0), uint32(0))
	r.checkCaptured(ok, nodeA+3, graphA, []uint64{nodeA + 2}, 0, "cuMemFreeAsync", m, uint64(streamA))
	r.must("graph_exec_destroy", x)
	y := r.instantiateGraph(graphA)
	r.launchGraph(y)
	r.launchGraph(y)
	if got := r.callForNumber("cuGraphMemFreeNodeGetParams", uint64(nodeA+3)); got != m {
		t.Errorf("freed is %#x, not %#x", got, m)
	}
	before := binary.LittleEndian.Uint64(r.must("cuMemGetInfo_v2"))
	r.must("graph_exec_destroy", y)
	r.must("cuGraphDestroy", uint64(graphA))
	r.checkFootprint("gone", 0, 4<<20, 0, 4<<20)
	r.must("cuDeviceSetGraphMemAttribute", int32(0), int32(1), uint64(1), uint64(0))
	r.checkFootprint("reset", 0, 0, 0, 4<<20)
	if after := binary.LittleEndian.Uint64(r.must("cuMemGetInfo_v2")); after <= before {
		t.Errorf("%d bytes are free, %d were with the graph", after, before)
	}
}

// TestGraphErrors: the error numbers are CUDA's.
func TestGraphErrors(t *testing.T) {
	r := newGraphRig(t)
	r.want(invalidValue, "cuGraphCreate", uint64(graphB), uint32(1))
	r.want(invalidHandle, "cuGraphCreate", uint64(graphA), uint32(0))
	r.want(invalidValue, "cuGraphAddEmptyNode", joinLists([]any{uint64(nodeA), uint64(graphB)}, dependencyList())...)
	r.want(invalidValue, "cuGraphAddEmptyNode", joinLists([]any{uint64(nodeA), uint64(graphA)}, dependencyList(nodeA))...)
	r.must("cuGraphAddEmptyNode", joinLists([]any{uint64(nodeA), uint64(graphA)}, dependencyList())...)
	r.want(invalidValue, "graph_set_kernel", joinLists([]any{uint64(nodeA)}, r.encodeShape(r.a, 1))...)
	r.want(invalidValue, "graph_set_host", uint64(nodeA), uint64(1))
	r.want(invalidHandle, "cuGraphAddEventRecordNode", joinLists([]any{uint64(nodeA + 1), uint64(graphA)}, dependencyList(), []any{uint64(eventA)})...)
	x := r.instantiateGraph(graphA)
	r.want(invalidValue, "graph_exec_host", x, uint64(nodeA), uint64(1))
	r.want(invalidValue, "cuGraphNodeSetEnabled", x, uint64(nodeA), uint32(1))
	r.want(invalidValue, "cuGraphNodeSetEnabled", x, uint64(nodeA+7), uint32(1))
	// A node that cannot be is named.
	set := [5]uint64{12345, 0, 7 | 4<<32, 2, 1}
	r.must("cuGraphAddMemsetNode", joinLists([]any{uint64(nodeA + 2), uint64(graphA)}, dependencyList(), []any{set, uint64(ctxA)})...)
	out := r.want(invalidValue, "graph_instantiate", uint64(graphA), paramsWithFlags(0), uint32(256))
	text := binary.LittleEndian.Uint64(out)
	if got := binary.LittleEndian.Uint64(out[8+text+8+16:]); text == 0 || got != nodeA+2 {
		t.Errorf("the failed node is %#x, with %d bytes of log", got, text)
	}
	r.want(notSupported, "graph_instantiate", uint64(graphA), paramsWithFlags(4), uint32(0))
	r.want(invalidValue, "graph_instantiate", uint64(graphA), paramsWithFlags(64), uint32(0))
	// The graphs' objects of a context are gone with the context.
	r.must("cuCtxDestroy_v2", uint64(ctxA))
	r.want(invalidHandle, "cuGraphExecGetFlags", x)
}

// TestGraphNonsense: with any bytes in a process's messages about graphs, the server goes on.
func TestGraphNonsense(t *testing.T) {
	s := newServer(t, 1)
	random := rand.New(rand.NewPCG(1, 2))
	var symbols []string
	for symbol := range ops {
		if strings.HasPrefix(symbol, "cuGraph") || strings.HasPrefix(symbol, "graph_") || symbol == "captured" || symbol == "host_func" {
			symbols = append(symbols, symbol)
		}
	}
	values := []uint64{0, 1, 2, graphA, graphB, nodeA, nodeA + 1, ctxA, streamA, eventA, handles.FirstServer | 0x20<<handles.ClassShift | 1, handles.FirstServer | 0x21<<handles.ClassShift | 1, 1 << 63, ^uint64(0)}
	for range 40 {
		_, cs := attachProcess(t, s, 1)
		c := cs[0]
		c.beginContext(ctxA, 0)
		c.must("cuStreamCreate", uint64(streamA), uint32(0))
		c.must("cuGraphCreate", uint64(graphA), uint32(0))
		c.must("cuGraphCreate", uint64(graphB), uint32(0))
		for range 60 {
			op, b := c.encodeMessage(symbols[random.IntN(len(symbols))], nil)
			for range random.IntN(8) {
				b = binary.LittleEndian.AppendUint64(b, values[random.IntN(len(values))])
			}
			b = append(b, make([]byte, random.IntN(5))...)
			if r, _ := c.ask(op, b); r == statusGone {
				break // the connection was dropped, as expected
			}
		}
	}
}
