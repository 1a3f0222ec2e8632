// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/api"
)

func opOf(t testing.TB, symbol string) uint32 {
	t.Helper()
	table, err := api.Load()
	if err != nil {
		t.Fatal(err)
	}
	if table.Call(symbol) == nil {
		t.Fatalf("no %s", symbol)
	}
	return table.Call(symbol).Op()
}

// encodeParts encodes a message: numbers by their Go types.
func encodeParts(parts ...any) []byte {
	var all []byte
	for _, p := range parts {
		switch p := p.(type) {
		case int: // a handle, a size
			for i := range 8 {
				all = append(all, byte(p>>(8*i)))
			}
		case int32:
			for i := range 4 {
				all = append(all, byte(p>>(8*i)))
			}
		case byte:
			all = append(all, p)
		case string:
			all = append(append(all, encodeParts(len(p))...), p...)
		}
	}
	return all
}

func TestRefs(t *testing.T) {
	const none = -1
	for _, tc := range []struct {
		symbol  string
		in, out []byte
		want    []Ref
	}{
		{"cuStreamCreate", encodeParts(7, int32(1)), nil, []Ref{{Make, "stream", 7}}},
		{"cuStreamDestroy_v2", encodeParts(7), nil, []Ref{{Break, "stream", 7}}},
		{"cuStreamDestroy_v2", encodeParts(2), nil, nil},
		{"cuModuleGetFunction", encodeParts(5, "saxpy"), encodeParts(9), []Ref{{Use, "module", 5}, {Make, "function", 9}}},
		{"cuGraphAddEmptyNode", encodeParts(8, 3, 2, 5, 6, 2), nil,
			[]Ref{{Make, "node", 8}, {Change, "graph", 3}, {Use, "node", 5}, {Use, "node", 6}}},
		{"cuGraphAddEmptyNode", encodeParts(8, 3, none, 0), nil, []Ref{{Make, "node", 8}, {Change, "graph", 3}}},
		{"cuGraphGetNodes", encodeParts(3, byte(1), 4), encodeParts(2, 5, 6, 2), []Ref{{Use, "graph", 3}, {"", "node", 5}, {"", "node", 6}}},
		{"cuGraphGetNodes", encodeParts(3, byte(0), 4), encodeParts(2), []Ref{{Use, "graph", 3}}},
		{"graph_instantiate", encodeParts(3, 0, 4, 0, 0, int32(0)), encodeParts(0, 11, 0, 4, 0, 0),
			[]Ref{{Use, "graph", 3}, {Use, "stream", 4}, {Make, "graphexec", 11}, {Use, "stream", 4}}},
		{"cuFuncSetAttribute", encodeParts(9, int32(8), int32(65536)), nil, []Ref{{Change, "function", 9}}},
		{"captured", encodeParts(8, 3, 1, 5, 1, 0, int32(0), int32(int64(opOf(t, "graph_launch"))), string(encodeParts(60, 7)), 16, 0), encodeParts(0, 0),
			[]Ref{{Make, "node", 8}, {Change, "graph", 3}, {Use, "node", 5}, {Use, "graphexec", 60}, {Use, "stream", 7}}},
	} {
		got, err := Refs(opOf(t, tc.symbol), tc.in, tc.out)
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("Refs of %s = %v, %v; want %v", tc.symbol, got, err, tc.want)
		}
	}
	for _, in := range [][]byte{nil, encodeParts(7), encodeParts(7, int32(1), byte(0))} {
		if _, err := Refs(opOf(t, "cuStreamCreate"), in, nil); !errors.Is(err, ErrMalformed) {
			t.Errorf("Refs of the malformed message %x: %v", in, err)
		}
	}
}

// neededCalls adds calls, and returns the calls that are still needed.
func neededCalls(t *testing.T, calls ...Call) string {
	t.Helper()
	g := New()
	for _, c := range calls {
		if err := g.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	var all string
	for _, c := range g.Calls() {
		for i := range calls {
			if calls[i].Op == c.Op && bytes.Equal(calls[i].In, c.In) && bytes.Equal(calls[i].Out, c.Out) {
				all += fmt.Sprintf(" %d", i)
				break
			}
		}
	}
	return all
}

func TestGraph(t *testing.T) {
	call := func(symbol string, in, out []byte) Call { return Call{opOf(t, symbol), 1, in, out} }
	context := Call{opOf(t, "cuCtxCreate_v2"), 0, encodeParts(1, int32(0), int32(0)), nil}
	stream := func(h int) Call { return call("cuStreamCreate", encodeParts(h, int32(0)), nil) }
	attribute := func(v int32) Call { return call("cuFuncSetAttribute", encodeParts(9, int32(8), v), nil) }
	load := call("module_load", encodeParts("PTX", 3, 0, 0, int32(0), int32(0), int32(0)), encodeParts(0, 0, 5, int32(0)))
	function := call("cuModuleGetFunction", encodeParts(5, "f"), encodeParts(9))
	unload := call("cuModuleUnload", encodeParts(5), nil)
	graph := call("cuGraphCreate", encodeParts(3, int32(0)), nil)
	node := call("graph_add_kernel", encodeParts(8, 3, 0, 0, 9, 0, 0, int32(1), int32(1), int32(1), int32(1), int32(1), int32(1), int32(0), "", int32(0)), nil)
	instantiate := call("graph_instantiate", encodeParts(3, 0, 0, 0, 0, int32(0)), encodeParts(0, 11, 0, 0, 0, 0))
	other := func(h int) Call { return call("cuGraphCreate", encodeParts(h, int32(0)), nil) }
	update := func(h int) Call { return call("graph_update", encodeParts(11, h), encodeParts(0, 0, 0)) }
	parameters := call("graph_exec_host", encodeParts(11, 21, 77), nil)
	enable := call("cuGraphNodeSetEnabled", encodeParts(11, 21, int32(0)), nil)
	work := func(s int) Call { return call("cuMemsetD8Async", encodeParts(9, byte(1), 4, s), nil) }
	event := call("cuEventCreate", encodeParts(30, int32(0)), nil)
	captures := func(node int, inner Call) Call {
		return call("captured", encodeParts(node, 3, 0, 0, 0, int32(0), int32(int64(inner.Op)), string(inner.In), len(inner.In), 0), encodeParts(0, 0))
	}
	record := captures(21, call("cuEventRecordWithFlags", encodeParts(30, 7, int32(1)), nil))
	for _, tc := range []struct {
		name  string
		calls []Call
		want  string
	}{
		{"nothing", nil, ""},
		{"captured work", []Call{context, stream(7), work(7), graph, captures(20, work(7)), work(7)}, " 0 1 3 4"},
		{"captured work whose graph is no more",
			[]Call{context, stream(7), graph, captures(20, work(7)), call("cuGraphDestroy", encodeParts(3), nil)}, " 0 1"},
		{"captured work whose stream is no more",
			[]Call{context, stream(7), graph, captures(20, work(7)), call("cuStreamDestroy_v2", encodeParts(7), nil)}, " 0 1 2 3 4"},
		{"captured work whose stream and graph are no more", []Call{
			context, stream(7), graph, captures(20, work(7)), call("cuStreamDestroy_v2", encodeParts(7), nil), call("cuGraphDestroy", encodeParts(3), nil),
		}, " 0"},
		{"a captured event that is no more", []Call{
			context, stream(7), event, graph, record, call("cuEventDestroy_v2", encodeParts(30), nil),
		}, " 0 1 2 3 4 5"},
		{"a stream", []Call{context, stream(7)}, " 0 1"},
		{"a stream that is no more", []Call{context, stream(7), stream(8), call("cuStreamDestroy_v2", encodeParts(7), nil)}, " 0 2"},
		{"work", []Call{context, stream(7), call("cuMemsetD8Async", encodeParts(9, byte(1), 4, 7), nil)}, " 0 1"},
		{"memory is not ours", []Call{context, call("cuMemAlloc_v2", encodeParts(64), encodeParts(4096))}, " 0"},
		{"only the last attribute", []Call{context, load, function, attribute(1), attribute(2)}, " 0 1 2 4"},
		{"an unloaded module", []Call{context, load, function, unload}, " 0"},
		{"a context's things end with it", []Call{context, stream(7), load, function, {opOf(t, "cuCtxDestroy_v2"), 0, encodeParts(1), nil}}, ""},
		{"a graph of an unloaded module", []Call{context, load, function, graph, node, instantiate, unload}, " 0 1 2 3 4 5 6"},
		{"a destroyed graph, instantiated",
			[]Call{context, load, function, graph, node, instantiate, call("cuGraphDestroy", encodeParts(3), nil)}, " 0 1 2 3 4 5 6"},
		{"nothing is left of a graph",
			[]Call{context, graph, instantiate, call("cuGraphDestroy", encodeParts(3), nil), call("graph_exec_destroy", encodeParts(11), nil)}, " 0"},
		{"only the last update of an executable graph", []Call{
			context, graph, instantiate, other(4), parameters, update(4), call("cuGraphDestroy", encodeParts(4), nil), enable, other(5), update(5),
		}, " 0 1 2 7 8 9"},
		{"parameters behind an update", []Call{context, graph, instantiate, other(4), update(4), parameters, enable}, " 0 1 2 3 4 5 6"},
		{"an attribute that was seen", []Call{context, load, function, attribute(1), graph, node, attribute(2)}, " 0 1 2 3 4 5 6"},
		{"a pool that was always there", []Call{
			context, call("cuDeviceGetDefaultMemPool", encodeParts(int32(0)), encodeParts(40)), call("cuDeviceGetDefaultMemPool", encodeParts(int32(0)), encodeParts(40)),
			call("pool_set", encodeParts(40, int32(4), 1<<30), nil),
		}, " 0 1 3"},
	} {
		if got := neededCalls(t, tc.calls...); got != tc.want {
			t.Errorf("%s: kept%s, want%s", tc.name, got, tc.want)
		}
	}
	if err := New().Add(Call{Op: opOf(t, "cuStreamCreate"), In: []byte{1}}); !errors.Is(err, ErrMalformed) {
		t.Errorf("Add of a malformed call: %v", err)
	}
}

// TestAgainstMachine: for random programs of all calls, the kept calls build the same objects as all calls
// did.
func TestAgainstMachine(t *testing.T) {
	kept, called := 0, 0
	for seed := range uint64(25) {
		p, g := newProgram(seed), New()
		for range 400 {
			c, ok := p.makeCall()
			if !ok {
				continue
			}
			called++
			if err := g.Add(c); err != nil {
				t.Fatal(err)
			}
		}
		again := newMachine()
		for _, c := range g.Calls() {
			kept++
			again.carryOut(c)
		}
		want, got := p.m.aliveObjects(), again.aliveObjects()
		if len(want) == 0 {
			t.Errorf("seed %d: no object is alive after the random calls", seed)
		}
		if !maps.Equal(want, got) {
			for n, v := range want {
				if got[n] != v {
					t.Errorf("seed %d: the value of %v is %x, want %x", seed, n, got[n], v)
				}
			}
			t.Fatalf("seed %d: %d objects, want %d", seed, len(got), len(want))
		}
	}
	if kept == 0 || kept > called {
		t.Errorf("%d calls kept of %d", kept, called)
	}
}

// TestItDoesNotGrow: objects that are made and destroyed leave no entries, nor do graphs that an executable graph was
// updated with.
func TestItDoesNotGrow(t *testing.T) {
	g := New()
	for _, c := range []Call{
		{opOf(t, "cuGraphCreate"), 1, encodeParts(3, int32(0)), nil},
		{opOf(t, "graph_instantiate"), 1, encodeParts(3, 0, 0, 0, 0, int32(0)), encodeParts(0, 11, 0, 0, 0, 0)},
	} {
		if err := g.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20_000 {
		h := 100 + i
		for _, c := range []Call{
			{opOf(t, "cuStreamCreate"), 1, encodeParts(h, int32(0)), nil},
			{opOf(t, "cuCtxSetLimit"), 1, encodeParts(int32(0), h), nil},
			{opOf(t, "cuFuncSetAttribute"), 1, encodeParts(9, int32(8), int32(i)), nil},
			{opOf(t, "cuGraphCreate"), 1, encodeParts(h, int32(0)), nil},
			{opOf(t, "cuGraphAddEmptyNode"), 1, encodeParts(h, h, 0, 0), nil},
			{opOf(t, "graph_exec_host"), 1, encodeParts(11, 21, i), nil},
			{opOf(t, "graph_update"), 1, encodeParts(11, h), encodeParts(0, 0, 0)},
			{opOf(t, "cuGraphDestroy"), 1, encodeParts(h), nil},
			{opOf(t, "cuStreamDestroy_v2"), 1, encodeParts(h), nil},
		} {
			if err := g.Add(c); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := len(g.entries); n > 4000 {
		t.Errorf("%d calls are held", n)
	}
	if calls := g.Calls(); len(calls) != 8 {
		t.Errorf("%d calls are needed, want 8: a limit, an attribute, and an executable graph with its last update by a graph with a node", len(calls))
	}
}

func FuzzRefs(f *testing.F) {
	all := slices.Sorted(maps.Keys(rules))
	f.Add(uint16(3), encodeParts(7, int32(1)), encodeParts(1))
	f.Fuzz(func(_ *testing.T, which uint16, in, out []byte) {
		c := Call{all[int(which)%len(all)], 1, in, out}
		g := New()
		if g.Add(c) == nil {
			_ = g.Calls()
		}
	})
}
