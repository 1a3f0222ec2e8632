// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/backendtest"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/core"
)

func TestBackend(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) backend.Backend {
		b, err := New(Config{Memory: []uint64{80 << 30, 256 << 20}, Seed: "test"})
		if err != nil {
			t.Fatal(err)
		}
		return b
	})
}

// TestTight runs the suite of spaces that do not fit together, with equal memory there once and without.
func TestTight(t *testing.T) {
	const each = "each space has its own memory, and swaps all of it"
	excused := backendtest.ExcusedCases{"bytes that are alike stay": each, "bytes that differ are moved alone": each, "bytes that have changed alike leave once": each}
	for _, separate := range []bool{false, true} {
		except := backendtest.ExcusedCases{}
		if separate {
			except = excused
		}
		backendtest.RunTight(t, func(t *testing.T) backend.Backend {
			b, err := New(Config{Memory: []uint64{backendtest.TightMemory}, Separate: separate})
			if err != nil {
				t.Fatal(err)
			}
			return b
		}, except)
	}
}

// FuzzRestore: a restore checks each field of a saved state, which may come from a damaged file.
func FuzzRestore(f *testing.F) {
	for _, s := range []backend.State{
		{Base: backend.DefaultBase, Memory: 64 << 20},
		{
			Base: backend.DefaultBase, Memory: 64 << 20, NextMemory: 1, NextPool: 1, NextContext: 1,
			Allocations: []backend.Allocation{
				{Base: backend.DefaultBase, Size: 100, Kind: backend.Plain, Context: 1, Access: true},
				{Base: backend.DefaultBase + 512, Size: 1000, Kind: backend.Pooled, Pool: 1, Access: true},
				{Base: backend.DefaultBase + 4<<20, Size: 3 << 20, Kind: backend.Globals, Context: 1, Access: true},
				{Base: backend.DefaultBase + 10<<20, Size: 2 << 20, Kind: backend.Mapped, Memory: 1, Access: true},
			},
			Reservations: []backend.Range{{Base: backend.DefaultBase + 8<<20, Size: 8 << 20}},
			Memories:     []backend.MemoryState{{ID: 1, Size: 2 << 20, Refs: 1}},
			Pools:        []backend.PoolState{{ID: 0}, {ID: 1, MaxSize: 5000}},
			KernelHeap: &backend.KernelHeap{
				Base: backend.DefaultBase + 1<<40 - 64<<20, Size: 1 << 20, Pieces: []backend.KernelPiece{{Base: backend.DefaultBase + 1<<40 - 64<<20, Size: 32, Context: 1}},
			},
		},
	} {
		text, err := json.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	b, err := New(Config{Memory: []uint64{64 << 20}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var st backend.State
		if json.Unmarshal(text, &st) != nil {
			t.Skip()
		}
		s, err := b.Devices()[0].NewSpace(backend.SpaceConfig{State: &st})
		if err != nil {
			if backend.ResultOf(err) == backend.Unknown {
				t.Errorf("an error without a number: %v", err)
			}
			return
		}
		if free, total := s.Info(); free > total {
			t.Errorf("%d of %d bytes are free", free, total)
		}
		// A state that was accepted gives a space that works.
		again, err := b.Devices()[0].NewSpace(backend.SpaceConfig{State: s.State()})
		if err != nil {
			t.Fatalf("NewSpace from the space's own state: %v", err)
		}
		if !reflect.DeepEqual(again.State(), s.State()) {
			t.Errorf("state after the restore = %+v, want %+v", again.State(), s.State())
		}
		for _, x := range []backend.Space{again, s} {
			if err := x.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestFullQueue: a program that queues without end waits, and goes on when there is room.
func TestFullQueue(t *testing.T) {
	b, err := New(Config{Memory: []uint64{64 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s, err := b.Devices()[0].NewSpace(backend.SpaceConfig{})
	if err == nil {
		err = s.Map()
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.NewContext(0)
	if err != nil {
		t.Fatal(err)
	}
	gate := make(chan struct{})
	st := c.Legacy()
	if err := st.Host(func() { <-gate }); err != nil {
		t.Fatal(err)
	}
	n, over := 0, make(chan error)
	go func() {
		var err error
		for i := 0; i < core.MaxQueued+core.MaxQueued/2 && err == nil; i++ {
			if i == core.MaxQueued-10 {
				close(gate) // the kernel ends, whether or not the caller comes to wait
			}
			err = st.Host(func() { n++ })
		}
		over <- err
	}()
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	if err := st.Synchronize(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n != core.MaxQueued+core.MaxQueued/2 {
		t.Errorf("%d host functions ran, want all that were queued", n)
	}
	// A caller that waits for room returns an error when the space is closed.
	never := make(chan struct{})
	defer close(never)
	if err := st.Host(func() { <-never }); err != nil {
		t.Fatal(err)
	}
	go func() {
		var err error
		for err == nil {
			err = st.Host(func() {})
		}
		over <- err
	}()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-over; backend.ResultOf(err) != backend.ContextIsDestroyed {
		t.Error(err)
	}
}

// TestCoresDoNotMatter: a launch writes the same bytes with any number of cores.
func TestCoresDoNotMatter(t *testing.T) {
	run := func(workers int) map[backend.BlockID]backend.Hash {
		b, err := New(Config{Memory: []uint64{64 << 20}, Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		s, err := b.Devices()[0].NewSpace(backend.SpaceConfig{})
		if err == nil {
			err = s.Map()
		}
		if err != nil {
			t.Fatal(err)
		}
		c, err := s.NewContext(0)
		if err != nil {
			t.Fatal(err)
		}
		m, _, err := c.Load([]byte(backendtest.Kernels), backend.LoadConfig{})
		if err != nil {
			t.Fatal(err)
		}
		f, err := m.Function("add")
		if err != nil {
			t.Fatal(err)
		}
		a, err := c.Alloc(4 << 20)
		if err != nil {
			t.Fatal(err)
		}
		p := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, uint64(a)), 3)
		for range 2 {
			err := c.Legacy().Launch(backend.Launch{Function: f, Grid: backend.Dim{X: 1000, Y: 1, Z: 1}, Block: backend.Dim{X: 96, Y: 1, Z: 1}, Params: p})
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Synchronize(t.Context()); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		out := map[backend.BlockID]backend.Hash{}
		if err := s.Blocks(&[32]byte{}, func(id backend.BlockID, h backend.Hash) bool {
			mu.Lock()
			defer mu.Unlock()
			out[id] = h
			return true
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	want := run(1)
	for _, workers := range []int{2, 7} {
		if got := run(workers); !reflect.DeepEqual(got, want) {
			t.Errorf("with %d cores: %v, want %v", workers, got, want)
		}
	}
}

// TestRefusedKernel: an unsupported instruction is refused by name, and spoils its own kernel only.
func TestRefusedKernel(t *testing.T) {
	b, err := New(Config{Memory: []uint64{64 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s, err := b.Devices()[0].NewSpace(backend.SpaceConfig{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.NewContext(0)
	if err != nil {
		t.Fatal(err)
	}
	m, log, err := c.Load([]byte(`
.version 7.0
.target sm_80
.address_size 64
.visible .entry good() { ret; }
.visible .entry bad(.param .u64 p)
{
	.reg .b64 %rd<2>;
	.reg .f32 %f<5>;
	.reg .b32 %r<2>;
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, 0;
	tld4.r.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2}];
	ret;
}
`), backend.LoadConfig{Verbose: true, MaxRegisters: 16})
	if err != nil {
		t.Fatalf("Load: %v\nlog: %s", err, log.Error)
	}
	if !strings.Contains(log.Error, "tld4.r.2d.v4.f32.f32") || !strings.Contains(log.Info, "'good'") {
		t.Errorf("log %+v, want the refused instruction and the kernel 'good'", log)
	}
	if _, err := m.Function("bad"); backend.ResultOf(err) != backend.NotSupported || !strings.Contains(err.Error(), "tld4.r.2d") {
		t.Errorf("Function(bad): %v, want NotSupported with the instruction", err)
	}
	f, err := m.Function("good")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := f.Attribute(backend.FuncRegisters); err != nil || n > 16 {
		t.Errorf("FuncRegisters = %d, %v, want 16 at most", n, err)
	}
}

// TestLongText: the kernels of a long text are compiled when the program asks for them. An error in a kernel is returned then, each
// time, and leaves the other kernels alone.
func TestLongText(t *testing.T) {
	b, err := New(Config{Memory: []uint64{64 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s, err := b.Devices()[0].NewSpace(backend.SpaceConfig{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.NewContext(0)
	if err != nil {
		t.Fatal(err)
	}
	const bad = "\n.visible .entry bad() { add.u32 nothing; ret; }\n"
	long := longModule(longText) + bad
	m, log, err := c.Load([]byte(long), backend.LoadConfig{})
	if err != nil || log.Error != "" {
		t.Fatalf("Load of the long text: %v\nlog: %s", err, log.Error)
	}
	for range 2 {
		if _, err := m.Function("bad"); backend.ResultOf(err) != backend.InvalidPTX {
			t.Errorf("Function(bad) of the long text: %v, want InvalidPTX", err)
		}
	}
	f, err := m.Function("kernel7")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(f.Params()); n != 1 {
		t.Errorf("kernel7 has %d parameters, want 1", n)
	}
	st, err := c.NewStream(backend.StreamConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Launch(backend.Launch{
		Function: f, Grid: backend.Dim{X: 1, Y: 1, Z: 1}, Block: backend.Dim{X: 1, Y: 1, Z: 1}, Params: make([]byte, 8),
	}); err != nil {
		t.Errorf("launch: %v", err)
	}
	for what, cfg := range map[string]backend.LoadConfig{"short": {}, "verbose": {Verbose: true}} {
		text := long
		if what == "short" {
			text = longModule(0) + bad
		}
		if _, log, err := c.Load([]byte(text), cfg); backend.ResultOf(err) != backend.InvalidPTX || !strings.Contains(log.Error, "line") {
			t.Errorf("Load, %s: %v, want InvalidPTX; log %q, want the line", what, err, log.Error)
		}
	}
}

// longModule is PTX of at least size bytes: kernels of a single parameter, kernel0 and so on.
func longModule(size int) string {
	var text strings.Builder
	text.WriteString(".version 7.0\n.target sm_80\n.address_size 64\n")
	for i := 0; i < 1 || text.Len() < size; i++ {
		fmt.Fprintf(&text, ".visible .entry kernel%d(.param .u64 p)\n{\n.reg .b64 %%rd<4>;\nld.param.u64 %%rd1, [p];\n", i)
		for range 100 {
			text.WriteString("\tadd.s64 \t%rd2, %rd1, 128; // what compilers write\n\txor.b64 \t%rd1, %rd2, %rd1;\n")
		}
		text.WriteString("ret;\n}\n")
	}
	return text.String()
}

// TestCapability: a device shows the capability that it is given, with the memory of a block that such devices have, and
// is given the code for it.
func TestCapability(t *testing.T) {
	const optin = backend.MaxSharedPerBlockOptin
	for text, shared := range map[string]int32{"8.0": 163 << 10, "8": 163 << 10, "8.9": 99 << 10, "9": 227 << 10, "9.0": 227 << 10, "10.0": 227 << 10} {
		c, err := ParseCapability(text)
		if err != nil {
			t.Fatal(err)
		}
		b, err := New(Config{Memory: []uint64{64 << 20}, Capability: c})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		at := b.Devices()[0].Info().Attributes
		if got := Capability(10*at[backend.ComputeMajor] + at[backend.ComputeMinor]); got != c || at[optin] != shared {
			t.Errorf("%s: %s, %d bytes of a block, want %d", text, got, at[optin], shared)
		}
	}
	for _, text := range []string{"", "7.5", "80", "10.00", "8.", "ten"} {
		if _, err := ParseCapability(text); err == nil {
			t.Errorf("ParseCapability(%q): no error", text)
		}
	}
	if _, err := New(Config{Memory: []uint64{64 << 20}, Capability: 75}); backend.ResultOf(err) != backend.InvalidValue {
		t.Errorf("New with capability 7.5: %v, want InvalidValue", err)
	}
	if DefaultCapability.String() != "10.0" {
		t.Errorf("default %s: proxyd.yaml says 10.0", DefaultCapability)
	}
}

// TestNewerPTX: PTX for a later device is taken where a program has no other. An instruction that only that device has
// is refused with the kernel that needs it.
func TestNewerPTX(t *testing.T) {
	b, err := New(Config{Memory: []uint64{64 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s, err := b.Devices()[0].NewSpace(backend.SpaceConfig{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.NewContext(0)
	if err != nil {
		t.Fatal(err)
	}
	text := `
.version 8.8
.target sm_90a
.address_size 64
.visible .entry good() { ret; }
.visible .entry newer() { wgmma.fence.sync.aligned; ret; }
`
	if _, _, err := c.Load(backendtest.Fatbin(text, 130), backend.LoadConfig{}); backend.ResultOf(err) != backend.NoBinaryForGPU {
		t.Errorf("Load of PTX for architecture 130: %v, want NoBinaryForGPU", err)
	}
	m, log, err := c.Load(backendtest.Fatbin(text, 120), backend.LoadConfig{})
	if err != nil {
		t.Fatalf("Load of PTX for architecture 120: %v\nlog: %s", err, log.Error)
	}
	if _, err := m.Function("good"); err != nil {
		t.Error(err)
	}
	if _, err := m.Function("newer"); backend.ResultOf(err) != backend.NotSupported || !strings.Contains(err.Error(), "wgmma") {
		t.Errorf("Function(newer): %v, want NotSupported with wgmma", err)
	}
}
