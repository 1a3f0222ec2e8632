// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"bytes"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/api"
)

func opOf(t testing.TB, symbol string) uint32 {
	t.Helper()
	table, err := api.Load()
	if err != nil {
		t.Fatal(err)
	}
	c := table.Call(symbol)
	if c == nil {
		t.Fatalf("no %s", symbol)
	}
	return c.Op()
}

func encodeMessage(put func(*encoder)) []byte { return encodeWith(put) }

// few is a backend that answers with too many values, or without any.
type few struct {
	Unsupported
	nodes []Node
	name  string
}

func (f few) GraphGetNodes(_ *Call, _ Graph, _ bool, _ uint64) ([]Node, uint64, Result) {
	return f.nodes, uint64(len(f.nodes)), 0
}

func (f few) DeviceGetName(_ *Call, _ int32, _ int32) (string, Result) { return f.name, 0 }

func TestHostile(t *testing.T) {
	nodes := func(wanted uint8, n uint64) []byte {
		return encodeMessage(func(e *encoder) { e.writeU64(1); e.writeU8(wanted); e.writeU64(n) })
	}
	for _, tc := range []struct {
		name, symbol string
		in           []byte
		want         string
	}{
		{"empty", "cuMemAlloc_v2", nil, "0 bytes where 8 belong"},
		{"short", "cuMemAlloc_v2", make([]byte, 7), "7 bytes where 8 belong"},
		{"long", "cuMemAlloc_v2", make([]byte, 9), "1 bytes too many"},
		{"neither yes nor no", "cuGraphGetNodes", nodes(2, 0), "2 for yes or no"},
		{"too much asked for", "cuGraphGetNodes", nodes(1, math.MaxUint64), "elements are asked for"},
		{"more than an answer asked for", "cuGraphGetNodes", nodes(1, MaxAnswer/8+1), "elements are asked for"},
		{"negative room", "cuDeviceGetName", encodeMessage(func(e *encoder) { e.writeI32(-1); e.writeI32(0) }), "-1 elements are asked for"},
		{"array longer than the message", "module_load",
			encodeMessage(func(e *encoder) { e.writeU64(math.MaxUint64 - 1) }), "elements in 0 bytes"},
		{"NULL where something must be", "module_load", encodeMessage(func(e *encoder) { e.writeU64(absent) }), "elements in 0 bytes"},
		{"array and count disagree", "copy_in",
			encodeMessage(func(e *encoder) { e.writeU64(1); e.writeU64(2); e.writeU16(0); e.writeU64(3); e.writeU64(0) }), "src has 2 elements, not 3"},
		{"NUL in a string", "cuModuleGetFunction",
			encodeMessage(func(e *encoder) { e.writeU64(1); e.writeU64(2); e.writeU16(0x41) }), "a NUL in a string"},
		{"half a struct", "cuMemPoolCreate", make([]byte, 87), "87 bytes where 88 belong"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, _, err := Serve(Unsupported{}, Call{}, opOf(t, tc.symbol), tc.in, []byte("x"))
			if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), tc.symbol+": ") {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if string(out) != "x" {
				t.Errorf("after a malformed message, out = %q, want it unchanged", out)
			}
		})
	}
	if _, _, err := Serve(Unsupported{}, Call{}, 1, nil, nil); !errors.Is(err, ErrUnknown) {
		t.Errorf("error %v, want %v", err, ErrUnknown)
	}
	if _, _, err := Serve(Unsupported{}, Call{}, opOf(t, "cuMemAlloc_v2")|PerThread, make([]byte, 8), nil); !errors.Is(err, ErrMalformed) {
		t.Errorf("error %v, want %v", err, ErrMalformed)
	}
}

func TestAnswers(t *testing.T) {
	nodes := encodeMessage(func(e *encoder) { e.writeU64(1); e.writeU8(1); e.writeU64(2) })
	name := encodeMessage(func(e *encoder) { e.writeI32(4); e.writeI32(0) })
	for _, tc := range []struct {
		what, symbol string
		b            Backend
		in, want     []byte
		err          error
	}{
		{"fits", "cuGraphGetNodes", few{nodes: []Node{5, 6}}, nodes,
			encodeMessage(func(e *encoder) { e.writeU64(2); e.writeU64(5); e.writeU64(6); e.writeU64(2) }), nil},
		{"fewer", "cuGraphGetNodes", few{nodes: []Node{5}}, nodes, encodeMessage(func(e *encoder) { e.writeU64(1); e.writeU64(5); e.writeU64(1) }), nil},
		{"too many", "cuGraphGetNodes", few{nodes: []Node{5, 6, 7}}, nodes, nil, ErrAnswer},
		{"not wanted", "cuGraphGetNodes", few{nodes: []Node{5, 6, 7}}, encodeMessage(func(e *encoder) { e.writeU64(1); e.writeU8(0); e.writeU64(0) }),
			encodeMessage(func(e *encoder) { e.writeU64(3) }), nil},
		{"text", "cuDeviceGetName", few{name: "gpu"}, name, encodeMessage(func(e *encoder) { e.writeU64(3); e.out = append(e.out, "gpu"...) }), nil},
		{"text too long", "cuDeviceGetName", few{name: "a gpu"}, name,
			encodeMessage(func(e *encoder) { e.writeU64(3); e.out = append(e.out, "a g"...) }), nil},
		{"no room for text", "cuDeviceGetName", few{name: "gpu"}, make([]byte, 8), make([]byte, 8), nil},
	} {
		out, r, err := Serve(tc.b, Call{}, opOf(t, tc.symbol), tc.in, nil)
		if !bytes.Equal(out, tc.want) || r != 0 || !errors.Is(err, tc.err) {
			t.Errorf("%s: %x, %d, %v; want %x, %v", tc.what, out, r, err, tc.want, tc.err)
		}
	}
	if _, r, err := Serve(Unsupported{}, Call{}, opOf(t, "nvmlShutdown"), nil, nil); r != ResultNvmlNotSupported || err != nil {
		t.Errorf("result of an NVML call = %d, %v", r, err)
	}
}

// FuzzServe: no message makes Serve panic, and no message makes Serve answer more than MaxAnswer.
func FuzzServe(f *testing.F) {
	all := slices.Sorted(maps.Keys(ops))
	for i := range all {
		f.Add(uint16(i), false, make([]byte, 64))
	}
	f.Fuzz(func(t *testing.T, which uint16, perThread bool, in []byte) {
		op := all[int(which)%len(all)]
		if perThread {
			op |= PerThread
		}
		// Longer messages could ask for so many values that the echo backend takes too long to make them.
		if len(in) > 1<<12 {
			return
		}
		for _, b := range []Backend{&echo{random: rand.New(rand.NewPCG(1, 2))}, Unsupported{}} {
			if _, ok := b.(*echo); ok && asksForMuch(in) {
				continue
			}
			out, _, err := Serve(b, Call{}, op, in, nil)
			if err != nil && len(out) > 0 {
				t.Fatalf("Serve returned %v, with an answer of %d bytes", err, len(out))
			}
			if len(out) > MaxAnswer+1<<12 {
				t.Fatalf("an answer of %d bytes is longer than MaxAnswer", len(out))
			}
		}
	})
}

// asksForMuch tells whether any number in a message could ask for a large number of values.
func asksForMuch(in []byte) bool {
	for i := range in {
		if b := in[i:]; len(b) >= 4 && little.Uint32(b) > 1<<12 && little.Uint32(b) <= MaxAnswer {
			return true
		}
	}
	return false
}
