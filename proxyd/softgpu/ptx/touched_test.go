// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/memory"
)

// TestTouched: a launch tells which ranges it has read and written, in each way in which instructions access memory, also
// when the room of an earlier launch is used again. Each block has words of its own, so that blocks do not race.
func TestTouched(t *testing.T) {
	const a, b, c = 1 << 40, 2 << 40, 3 << 40
	for _, x := range []struct {
		name, body string
		written    bool // of b; a is read, and c is not accessed
	}{
		{"a word", "ld.global.u32 %r1, [%rd1]; st.global.u32 [%rd2], %r1;", true},
		{"generic", "ld.u32 %r1, [%rd1]; st.u32 [%rd2], %r1;", true},
		{"a vector", "ld.global.v2.u32 {%r1, %r2}, [%rd1]; st.global.v2.u32 [%rd2], {%r1, %r2};", true},
		{"volatile", "ld.volatile.global.u32 %r1, [%rd1]; st.volatile.global.u32 [%rd2], %r1;", true},
		{"an atomic", "ld.global.u32 %r1, [%rd1]; atom.global.add.u32 %r2, [%rd2], %r1;", true},
		{"a reduction", "ld.global.u32 %r1, [%rd1]; red.global.add.u32 [%rd2], %r1;", true},
		{"a copy to shared memory", "mov.u32 %r1, room; cp.async.ca.shared.global [%r1], [%rd1], 4; cp.async.wait_all; ld.global.u32 %r2, [%rd2];", false},
		{"both are read", "ld.global.u32 %r1, [%rd1]; ld.global.u32 %r2, [%rd2];", false},
		{"written, then read", "ld.global.u32 %r1, [%rd1]; st.global.u32 [%rd2], %r1; ld.global.u32 %r2, [%rd2];", true},
		{"read, then written", "ld.global.u32 %r1, [%rd1]; ld.global.u32 %r2, [%rd2]; st.global.u32 [%rd2], %r1;", true},
	} {
		t.Run(x.name, func(t *testing.T) {
			k := kernelOf(t, `.version 7.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q)
{
	.shared .align 16 .b8 room[64];
	.reg .b32 %r<3>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [p];
	ld.param.u64 %rd2, [q];
	mov.u32 %r1, %ctaid.x;
	mul.wide.u32 %rd3, %r1, 16;
	add.u64 %rd1, %rd1, %rd3;
	add.u64 %rd2, %rd2, %rd3;
	`+x.body+`
	ret;
}
`)
			var mem memory.Memory
			for _, at := range []uint64{a, b, c} {
				if err := mem.Map(at, make([]byte, 4096), false); err != nil {
					t.Fatal(err)
				}
			}
			params := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, a), b)
			want := []memory.TouchedRange{{Base: a, Size: 4096}, {Base: b, Size: 4096, Written: x.written}}
			for i := range 3 {
				cfg := Config{Grid: Dim3{X: 4, Y: 1, Z: 1}, Block: Dim3{X: 64, Y: 1, Z: 1}, Params: params, Memory: &mem, Workers: 2}
				if i != 1 { // a launch that collects no accesses comes between
					cfg.Touched = &memory.TouchedRanges{}
				}
				if err := k.Launch(context.Background(), cfg); err != nil {
					t.Fatal(err)
				}
				if i != 1 && !slices.Equal(cfg.Touched.Ranges(), want) {
					t.Errorf("launch %d has accessed %v, want %v", i, cfg.Touched.Ranges(), want)
				}
			}
		})
	}
}

// TestTouchedParts: a launch over a View tells which parts it has accessed, and the whole range for an access that
// crosses the end of a part or lies in no part. Its results equal those of a launch over the Memory.
func TestTouchedParts(t *testing.T) {
	const a, b = 1 << 40, 2 << 40
	k := kernelOf(t, `.version 7.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q)
{
	.reg .b32 %r<6>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [p];
	ld.param.u64 %rd2, [q];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd3, %r1, 16;
	add.u64 %rd1, %rd1, %rd3;
	add.u64 %rd2, %rd2, %rd3;
	ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd1];
	st.global.u32 [%rd2], %r3;
	ret;
}
`)
	part := func(at, size uint64) memory.Part { return memory.Part{Base: at, Size: size} }
	read := func(at, size uint64) memory.TouchedRange { return memory.TouchedRange{Base: at, Size: size} }
	written := func(at, size uint64) memory.TouchedRange {
		return memory.TouchedRange{Base: at, Size: size, Written: true}
	}
	for _, x := range []struct {
		name    string
		threads uint32
		parts   []memory.Part
		want    []memory.TouchedRange
	}{
		{"parts that are accessed, and others", 64, []memory.Part{part(a, 512), part(a+512, 512), part(a+1024, 3072), part(b, 1024), part(b+1024, 3072)},
			[]memory.TouchedRange{read(a, 512), read(a+512, 512), written(b, 1024)}},
		{"an access across the end of a part", 1, []memory.Part{part(a, 8), part(a+8, 8), part(b, 4)},
			[]memory.TouchedRange{read(a, 4096), written(b, 4)}},
		{"beside all parts", 2, []memory.Part{part(a, 16), part(b+16, 16)},
			[]memory.TouchedRange{read(a, 16), read(a, 4096), written(b, 4096)}},
	} {
		t.Run(x.name, func(t *testing.T) {
			var wrote [2][]byte
			for i := range wrote {
				var mem memory.Memory
				from := make([]byte, 4096)
				for at := range from {
					from[at] = byte(at)
				}
				wrote[i] = make([]byte, 4096)
				for at, bytes := range map[uint64][]byte{a: from, b: wrote[i]} {
					if err := mem.Map(at, bytes, false); err != nil {
						t.Fatal(err)
					}
				}
				params := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, a), b)
				cfg := Config{Grid: Dim3{X: 1, Y: 1, Z: 1}, Block: Dim3{X: x.threads, Y: 1, Z: 1}, Params: params, Memory: &mem, Touched: &memory.TouchedRanges{}}
				if i == 1 {
					cfg.Memory = mem.View(x.parts)
				}
				if err := k.Launch(context.Background(), cfg); err != nil {
					t.Fatal(err)
				}
				got := cfg.Touched.Ranges()
				slices.SortFunc(got, func(a, b memory.TouchedRange) int {
					return cmp.Or(cmp.Compare(a.Base, b.Base), cmp.Compare(a.Size, b.Size))
				})
				if i == 1 && !slices.Equal(got, x.want) {
					t.Errorf("accessed %v, want %v", got, x.want)
				}
			}
			if !bytes.Equal(wrote[0], wrote[1]) {
				t.Error("other bytes were written over a View")
			}
		})
	}
}

// kernelOf is the kernel k of a text.
func kernelOf(t *testing.T, text string) *Kernel {
	t.Helper()
	m, err := Parse("test", text)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Link(m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = p.Place(5 << 40); err != nil {
		t.Fatal(err)
	}
	k, err := p.Kernel("k")
	if err != nil {
		t.Fatal(err)
	}
	return k
}
