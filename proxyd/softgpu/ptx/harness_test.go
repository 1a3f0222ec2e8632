// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/memory"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/native"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// Addresses of the memory that tests map.
const (
	testGlobals = 0x10_0000_0000
	testIn      = 0x20_0000_0000
	testOut     = 0x30_0000_0000
)

// machine is a program with memory to run on.
type machine struct {
	tb  testing.TB
	p   *Program
	mem memory.Memory
	cfg Config

	mapped [][]byte
}

// bootMachine links texts and places their globals.
func bootMachine(tb testing.TB, texts ...string) *machine {
	tb.Helper()
	var mods []*Module
	for i, text := range texts {
		m, err := Parse(fmt.Sprintf("test%d", i), text)
		if err != nil {
			tb.Fatal(err)
		}
		mods = append(mods, m)
	}
	p, err := Link(mods...)
	if err != nil {
		tb.Fatal(err)
	}
	image, err := p.Place(testGlobals)
	if err != nil {
		tb.Fatal(err)
	}
	m := &machine{tb: tb, p: p}
	if len(image) > 0 {
		m.mapAt(testGlobals, image)
	}
	return m
}

// mapAt maps a copy of bytes.
func (m *machine) mapAt(addr uint64, bytes []byte) []byte {
	m.tb.Helper()
	own := make([]byte, max(64, len(bytes)))
	copy(own, bytes)
	if err := m.mem.Map(addr, own, false); err != nil {
		m.tb.Fatal(err)
	}
	m.mapped = append(m.mapped, own)
	return own
}

// prepareLaunch returns a kernel and its launch, with 64-bit numbers as parameters.
func (m *machine) prepareLaunch(kernel string, grid, block Dim3, params ...uint64) (*Kernel, Config, error) {
	k, err := m.p.Kernel(kernel)
	if err != nil {
		return nil, Config{}, err
	}
	cfg := m.cfg
	cfg.Grid, cfg.Block, cfg.Memory = grid, block, &m.mem
	for i, p := range params {
		if i < len(k.Params) {
			for len(cfg.Params) < int(k.Params[i].Offset) {
				cfg.Params = append(cfg.Params, 0)
			}
		}
		cfg.Params = binary.LittleEndian.AppendUint64(cfg.Params, p)
	}
	return k, cfg, nil
}

// launchKernel runs a kernel with 64-bit numbers as parameters.
func (m *machine) launchKernel(kernel string, grid, block Dim3, params ...uint64) error {
	m.tb.Helper()
	k, cfg, err := m.prepareLaunch(kernel, grid, block, params...)
	if err != nil {
		return err
	}
	if _, measures := m.tb.(*testing.B); !measures && cfg.Hooks.Printf == nil && cfg.Hooks.Malloc == nil && cfg.Count == nil && cfg.Issued == nil && cfg.Touched == nil && native.Check() == nil {
		return m.runBoth(k, cfg)
	}
	return k.Launch(context.Background(), cfg)
}

// runKernel is launchKernel for kernels that must not fail.
func (m *machine) runKernel(kernel string, grid, block Dim3, params ...uint64) {
	m.tb.Helper()
	if err := m.launchKernel(kernel, grid, block, params...); err != nil {
		m.tb.Fatal(err)
	}
}

func readWords(b []byte) []uint32 {
	w := make([]uint32, len(b)/4)
	for i := range w {
		w[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return w
}

func wordBytes(w ...uint32) []byte {
	var b []byte
	for _, v := range w {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

const header = ".version 8.4\n.target sm_80\n.address_size 64\n"

// bitsName is the untyped name of a register that holds type t.
func bitsName(t string) string {
	switch typ := types.ByName[t]; {
	case t == "pred":
		return "pred"
	case typ.Size() <= 2:
		return "b16"
	default:
		return fmt.Sprintf("b%d", 8*typ.Size())
	}
}

// lineKernel wraps a single instruction, or a few, into a kernel: d is the result, a, b and c the operands of thread t,
// at in+32t, the result goes to out+8t. types lists the types of d, a, b, c.
func lineKernel(op string, types ...string) string {
	var b strings.Builder
	b.WriteString(header)
	b.WriteString(".visible .entry k(.param .u64 in, .param .u64 out)\n{\n\t.reg .b64 %in, %out, %off;\n\t.reg .b32 %t, %w;\n\t.reg .pred p, q;\n")
	for i, t := range types {
		fmt.Fprintf(&b, "\t.reg .%s %c;\n", bitsName(t), "dabc"[i])
	}
	b.WriteString("\tld.param.u64 %in, [in];\n\tld.param.u64 %out, [out];\n\tmov.u32 %t, %tid.x;\n" +
		"\tmul.wide.u32 %off, %t, 32;\n\tadd.s64 %in, %in, %off;\n\tmul.wide.u32 %off, %t, 8;\n\tadd.s64 %out, %out, %off;\n")
	for i, t := range types[1:] {
		name := "abc"[i]
		if t == "pred" {
			fmt.Fprintf(&b, "\tld.global.u32 %%w, [%%in+%d];\n\tsetp.ne.u32 %c, %%w, 0;\n", 8*i, name)
			continue
		}
		fmt.Fprintf(&b, "\tld.global.%s %c, [%%in+%d];\n", bitsName(t), name, 8*i)
	}
	fmt.Fprintf(&b, "\t%s\n", op)
	switch bitsName(types[0]) {
	case "pred":
		b.WriteString("\tselp.u32 %w, 1, 0, d;\n\tst.global.u32 [%out], %w;\n")
	default:
		fmt.Fprintf(&b, "\tst.global.%s [%%out], d;\n", bitsName(types[0]))
	}
	b.WriteString("\tret;\n}\n")
	return b.String()
}

// evaluate runs a line for many operands, with full warps and with others, and returns the
// results.
func evaluate(tb testing.TB, op string, types []string, in [][3]uint64) []uint64 {
	tb.Helper()
	m := bootMachine(tb, lineKernel(op, types...))
	var b []byte
	for _, row := range in {
		for _, v := range row {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
		b = binary.LittleEndian.AppendUint64(b, 0)
	}
	m.mapAt(testIn, b)
	out := m.mapAt(testOut, make([]byte, 8*len(in)))
	results := make([]uint64, len(in))
	for at := 0; at < len(in); {
		n := min(len(in)-at, MaxThreads)
		m.runKernel("k", Dim3{1, 1, 1}, Dim3{uint32(n), 1, 1}, testIn+uint64(32*at), testOut+uint64(8*at))
		at += n
	}
	for i := range results {
		results[i] = binary.LittleEndian.Uint64(out[8*i:])
	}
	return results
}
