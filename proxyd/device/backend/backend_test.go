// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

func TestResultOf(t *testing.T) {
	for _, tc := range []struct {
		name   string
		err    error
		want   Result
		sticky bool
	}{
		{"nil", nil, Success, false},
		{"itself", OutOfMemory, OutOfMemory, false},
		{"wrapped", fmt.Errorf("a: %w", fmt.Errorf("b: %w", IllegalAddress)), IllegalAddress, true},
		{"joined", fmt.Errorf("%w: %w", errors.New("x"), NotReady), NotReady, false},
		{"another", errors.New("x"), Unknown, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := ResultOf(tc.err); got != tc.want || got.Sticky() != tc.sticky {
				t.Errorf("ResultOf = %v, sticky %v", got, got.Sticky())
			}
		})
	}
	if s := Result(12345).Error(); s != "CUDA error 12345" {
		t.Errorf("text of an unknown Result: %q", s)
	}
}

// TestResults: the numbers are the driver's, and each has its name.
func TestResults(t *testing.T) {
	want := map[Result]string{
		0: "CUDA_SUCCESS", 1: "CUDA_ERROR_INVALID_VALUE", 2: "CUDA_ERROR_OUT_OF_MEMORY", 101: "CUDA_ERROR_INVALID_DEVICE",
		200: "CUDA_ERROR_INVALID_IMAGE", 201: "CUDA_ERROR_INVALID_CONTEXT", 208: "CUDA_ERROR_ALREADY_MAPPED",
		209: "CUDA_ERROR_NO_BINARY_FOR_GPU", 211: "CUDA_ERROR_NOT_MAPPED", 215: "CUDA_ERROR_UNSUPPORTED_LIMIT", 218: "CUDA_ERROR_INVALID_PTX",
		222: "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", 400: "CUDA_ERROR_INVALID_HANDLE", 401: "CUDA_ERROR_ILLEGAL_STATE",
		500: "CUDA_ERROR_NOT_FOUND", 600: "CUDA_ERROR_NOT_READY", 700: "CUDA_ERROR_ILLEGAL_ADDRESS",
		701: "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", 704: "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
		705: "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", 709: "CUDA_ERROR_CONTEXT_IS_DESTROYED", 710: "CUDA_ERROR_ASSERT",
		713: "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", 714: "CUDA_ERROR_HARDWARE_STACK_ERROR", 715: "CUDA_ERROR_ILLEGAL_INSTRUCTION", 716: "CUDA_ERROR_MISALIGNED_ADDRESS",
		717: "CUDA_ERROR_INVALID_ADDRESS_SPACE", 718: "CUDA_ERROR_INVALID_PC", 719: "CUDA_ERROR_LAUNCH_FAILED",
		720: "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", 801: "CUDA_ERROR_NOT_SUPPORTED", 910: "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE",
		912: "CUDA_ERROR_INVALID_CLUSTER_SIZE",
		999: "CUDA_ERROR_UNKNOWN",
	}
	for r, name := range want {
		if r.Error() != name {
			t.Errorf("%d is %s, want %s", uint32(r), r.Error(), name)
		}
	}
	if len(resultNames) != len(want) {
		t.Errorf("%d results, %d are checked", len(resultNames), len(want))
	}
}

// ampere has the attributes of a device of compute capability 8.0.
var ampere = &Info{Attributes: Attributes{
	MaxThreadsPerBlock: 1024, WarpSize: 32, MaxBlocksPerMultiprocessor: 32, MaxThreadsPerMultiprocessor: 2048, MaxRegistersPerBlock: 65536,
	MaxRegistersPerMultiprocessor: 65536, MaxSharedPerBlockOptin: 166912, MaxSharedPerMultiprocessor: 167936, ReservedSharedPerBlock: 1024,
}}

func TestOccupancy(t *testing.T) {
	for _, tc := range []struct {
		name string
		r    Resources
		want int
	}{
		{"threads", Resources{Threads: 256}, 8},
		{"a crooked number of threads", Resources{Threads: 257}, 7},
		{"blocks", Resources{Threads: 1}, 32},
		{"a full block", Resources{Threads: 1024, Registers: 32}, 2},
		{"registers", Resources{Threads: 256, Registers: 64}, 4},
		{"registers are given by the 256", Resources{Threads: 256, Registers: 65}, 3},
		{"all registers", Resources{Threads: 1024, Registers: 64}, 1},
		{"too many registers", Resources{Threads: 1024, Registers: 65}, 0},
		{"255 registers", Resources{Threads: 32, Registers: 255}, 8},
		{"shared memory", Resources{Threads: 64, Shared: 48 << 10}, 3},
		{"all shared memory", Resources{Threads: 64, Shared: 163 << 10}, 1},
		{"too much shared memory", Resources{Threads: 64, Shared: 163<<10 + 1}, 0},
		{"no thread", Resources{}, 0},
		{"too many threads", Resources{Threads: 1025}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Occupancy(ampere, tc.r); got != tc.want {
				t.Errorf("Occupancy = %d, want %d", got, tc.want)
			}
		})
	}
}

func TestGraph(t *testing.T) {
	var g Graph
	add := func(deps ...NodeID) NodeID {
		t.Helper()
		id, err := g.Add(EmptyNode{}, deps...)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	a, b := add(), add()
	c := add(b)
	d := add(a, c)
	order := func(want ...NodeID) {
		t.Helper()
		if got, err := g.Order(); err != nil || !slices.Equal(got, want) {
			t.Errorf("order %v, %v, want %v", got, err, want)
		}
	}
	order(a, b, c, d)
	if got := g.Edges(); !slices.Equal(got, []Edge{{b, c}, {a, d}, {c, d}}) {
		t.Errorf("Edges = %v", got)
	}
	if err := g.Connect(Edge{c, a}); err != nil {
		t.Error(err)
	}
	order(b, c, a, d)
	clone := g.Clone()
	for _, tc := range []struct {
		name string
		err  error
	}{
		{"a circle", g.Connect(Edge{d, b})},
		{"itself", g.Connect(Edge{a, a})},
		{"twice", g.Connect(Edge{b, c})},
		{"to nothing", g.Connect(Edge{a, 99})},
		{"from nothing", g.Connect(Edge{99, a})},
		{"the second is wrong", g.Connect(Edge{a, b}, Edge{99, a})},
		{"not there", g.Disconnect(Edge{d, a})},
		{"remove nothing", g.Remove(99)},
		{"set nothing", g.Set(99, EmptyNode{})},
		{"another kind", g.Set(a, HostNode{})},
		{"no node", g.Set(a, nil)},
		{"no child", func() error { _, err := g.Add(ChildNode{}); return err }()},
		{"depends on nothing", func() error { _, err := g.Add(EmptyNode{}, 99); return err }()},
		{"depends twice", func() error { _, err := g.Add(EmptyNode{}, a, a); return err }()},
		{"node that is not there", func() error { _, err := g.Node(99); return err }()},
		{"dependencies of nothing", func() error { _, err := g.Deps(99); return err }()},
	} {
		if ResultOf(tc.err) != InvalidValue {
			t.Errorf("%s: %v, want InvalidValue", tc.name, tc.err)
		}
	}
	order(b, c, a, d)
	if err := g.Disconnect(Edge{c, a}, Edge{c, d}); err != nil {
		t.Error(err)
	}
	order(a, b, c, d)
	if err := g.Remove(b); err != nil {
		t.Error(err)
	}
	order(a, c, d)
	if e := add(); e <= d {
		t.Errorf("the number %d is used again", e)
	}
	if got := clone.Nodes(); !slices.Equal(got, []NodeID{a, b, c, d}) {
		t.Errorf("after a change of the original, the clone has nodes %v", got)
	}

	// A child is copied: a graph can even hold an earlier self.
	if _, err := g.Add(ChildNode{&g}); err != nil {
		t.Error(err)
	}
	inner, _ := g.Node(g.Nodes()[len(g.Nodes())-1])
	if n := len(inner.(ChildNode).Graph.Nodes()); n != 4 {
		t.Errorf("the child has %d nodes", n)
	}
}

func TestRegions(t *testing.T) {
	base := DefaultBase
	s := State{
		Allocations: []Allocation{
			{Base: base, Size: 100, Kind: Plain}, {Base: base + 512, Size: 100, Kind: Pooled}, {Base: base + Granule, Size: 3*Granule + 1, Kind: Plain},
			{Base: base + 5*Granule + 1024, Size: 100, Kind: Globals}, {Base: base + 6*Granule, Size: Granule, Kind: Mapped, Memory: 4},
		},
		Memories: []MemoryState{{ID: 4, Size: Granule}},
	}
	want := []Region{{Base: base, Size: Granule}, {Base: base + Granule, Size: 4 * Granule}, {Base: base + 5*Granule, Size: Granule}, {Memory: 4, Size: Granule}}
	if got := s.Regions(); !slices.Equal(got, want) {
		t.Errorf("Regions = %+v, want %+v", got, want)
	}
}
