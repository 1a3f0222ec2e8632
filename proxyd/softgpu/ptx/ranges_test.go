// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/memory"
)

// addressKernel is a kernel that loads from in and stores to out.
const addressKernel = header + `.visible .entry k(.param .u64 in, .param .u64 out) {
	.reg .b32 %r; .reg .b64 %rd<3>;
	ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; ld.global.u32 %r, [%rd1+8]; add.u32 %r, %r, 1; st.global.u32 [%rd2+8], %r; ret; }`

// TestRangesOfLaunchBefore: the accesses of a launch begin with the ranges that lie where the launch before found its
// ranges, unless the launch notes which ranges it accesses.
func TestRangesOfLaunchBefore(t *testing.T) {
	m := bootMachine(t, addressKernel)
	m.mapAt(addrA, make([]byte, 64))
	m.mapAt(addrB, make([]byte, 64))
	k, cfg, err := m.prepareLaunch("k", Dim3{1, 1, 1}, Dim3{32, 1, 1}, addrA, addrB)
	if err != nil {
		t.Fatal(err)
	}
	r := &launch{kernel: k, cfg: cfg, ctx: context.Background(), memory: cfg.Memory}
	b := newBlock(r)
	if err := r.runBlock(b, 0); err != nil {
		t.Fatal(err)
	}
	b.recycleBlock()
	b.run = r
	b.findHintedRanges()
	for s, want := range []uint64{addrA, addrB} {
		if b.sites[s].Base != want {
			t.Errorf("site %d begins with the range at %#x, want %#x", s, b.sites[s].Base, want)
		}
	}
	b.recycleBlock()
	r.cfg.Touched = new(memory.TouchedRanges)
	b.run = r
	b.findHintedRanges()
	for s, got := range b.sites {
		if got != &memory.Nowhere {
			t.Errorf("site %d of a launch that notes its accesses begins with the range at %#x", s, got.Base)
		}
	}
}

// TestRangesChange: a launch that accesses memory where other memory was in the launch before finds the bytes that are there now.
func TestRangesChange(t *testing.T) {
	for name, c := range map[string]struct {
		size     int // of the new range; 0: there is no range
		readOnly bool
		kind     FaultKind // -1: no fault
	}{
		"other bytes": {64, false, -1}, "read only": {64, true, IllegalAddress}, "smaller": {8, false, IllegalAddress}, "gone": {0, false, IllegalAddress},
	} {
		t.Run(name, func(t *testing.T) {
			m := bootMachine(t, addressKernel)
			from, to := m.mapAt(addrA, make([]byte, 64)), m.mapAt(addrB, make([]byte, 64))
			k, cfg, err := m.prepareLaunch("k", Dim3{1, 1, 1}, Dim3{32, 1, 1}, addrA, addrB)
			if err != nil {
				t.Fatal(err)
			}
			for n := range uint32(3) {
				binary.LittleEndian.PutUint32(from[8:], n)
				if err := k.Launch(context.Background(), cfg); err != nil {
					t.Fatal(err)
				}
			}
			if err := m.mem.Unmap(addrB); err != nil {
				t.Fatal(err)
			}
			next := make([]byte, 64)
			if c.size > 0 {
				if err := m.mem.Map(addrB, next[:c.size], c.readOnly); err != nil {
					t.Fatal(err)
				}
			}
			binary.LittleEndian.PutUint32(from[8:], 7)
			err = k.Launch(context.Background(), cfg)
			var fault *Fault
			switch {
			case c.kind >= 0:
				if !errors.As(err, &fault) || fault.Kind != c.kind {
					t.Errorf("the launch has ended with %v", err)
				}
			case err != nil || readWords(next)[2] != 8:
				t.Errorf("the launch has stored %d and ended with %v, want 8", readWords(next)[2], err)
			}
			if got := readWords(to)[2]; got != 3 {
				t.Errorf("memory that is unmapped has %d, want 3", got)
			}
		})
	}
}
