// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
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
			m, err := Parse("test", `.version 7.0
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
				if i != 1 { // a launch that collects nothing comes between
					cfg.Touched = &memory.Touched{}
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
