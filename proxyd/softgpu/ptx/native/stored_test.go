// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"bytes"
	"testing"
)

// sampleCode is the code of a function that adds two registers under a guard, jumps back, and leaves.
func sampleCode(tb testing.TB) ([]Inst, *Code) {
	tb.Helper()
	if err := Check(); err != nil {
		tb.Skip(err)
	}
	reg := func(n int) Ref { return Ref(n * wordBytes) }
	insts := []Inst{
		{Key: "add.u32", D: reg(1), A: reg(2), B: reg(3), Guard: 2, Site: -1, Target: -1, Meet: -1, Accesses: []Access{
			{Word, reg(1), true}, {Word, reg(2), false}, {Word, reg(3), false}, {Flag, 2, false}}},
		{Key: "unknown", Flow: Next, Site: -1, Target: -1, Meet: -1},
		{Flow: Branch, Guard: 2, Target: 0, Meet: -1, Site: -1, Accesses: []Access{{Flag, 2, false}}},
		{Flow: Elsewhere, Stops: true, Site: -1, Target: -1, Meet: -1},
	}
	c, err := Compile(insts)
	if err != nil {
		tb.Fatal(err)
	}
	return insts, c
}

// TestCompiledAlike: the same function becomes the same bytes, each time, at any address.
func TestCompiledAlike(t *testing.T) {
	insts, c := sampleCode(t)
	data := c.encodeCode()
	for range 3 {
		again, err := Compile(insts)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again.encodeCode(), data) {
			t.Error("the same instructions have become other code")
		}
	}
	read, err := decodeCode(data, len(insts))
	if err != nil || !bytes.Equal(read.encodeCode(), data) {
		t.Errorf("code that is written down and read again differs: %v", err)
	}
	if _, err := decodeCode(data, len(insts)+1); err == nil {
		t.Error("code of a function of another length was taken")
	}
}

// FuzzDecodeCode: any bytes are refused, or are code that is written down as the same bytes. The code is not run.
func FuzzDecodeCode(f *testing.F) {
	insts, c := sampleCode(f)
	f.Add(c.encodeCode())
	f.Fuzz(func(t *testing.T, data []byte) {
		read, err := decodeCode(data, len(insts))
		if err == nil && len(read.encodeCode()) < len(data) {
			t.Errorf("%d bytes were read as code of %d bytes", len(data), len(read.encodeCode()))
		}
	})
}
