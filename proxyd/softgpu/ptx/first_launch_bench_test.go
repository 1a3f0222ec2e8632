// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// BenchmarkFirstLaunch makes kernels ready for their first launch: all kernels of the files that the variable PTX names
// by a pattern, such as those that PyTorch has NVRTC compile and keeps in ~/.cache/torch/kernels. It reports the
// processor time of a kernel in milliseconds: to parse its body, to lower it to micro-operations, to compile these to
// machine code, and to have the machine code from a store instead.
func BenchmarkFirstLaunch(b *testing.B) {
	if err := Native(); err != nil {
		b.Skip(err)
	}
	files, err := filepath.Glob(cmp.Or(os.Getenv("PTX"), "testdata/*.ptx"))
	if err != nil {
		b.Fatal(err)
	}
	store := newCodeStore()
	var parse, lower, compile, load, kernels float64
	for b.Loop() {
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				b.Fatal(err)
			}
			p := placeLater(b, strings.TrimRight(string(text), "\x00"))
			start := cpuTime(b)
			for _, f := range p.mods[0].Order {
				if err := f.ParseBody(); err != nil {
					b.Fatal(err)
				}
			}
			parse += cpuTime(b) - start
			for _, name := range p.Kernels() {
				start := cpuTime(b)
				k, err := p.Kernel(name)
				if err != nil {
					b.Fatal(err)
				}
				lowered := cpuTime(b)
				again := &Kernel{}
				for _, c := range k.machine.codes {
					again.machine.codes = append(again.machine.codes, &code{plan: c.plan})
				}
				clear(store.saved) // kernels may be alike
				k.compileNative(store)
				compiled := cpuTime(b)
				again.compileNative(store)
				lower, compile, load = lower+lowered-start, compile+compiled-lowered, load+cpuTime(b)-compiled
				kernels++
			}
		}
	}
	for what, seconds := range map[string]float64{"parse": parse, "lower": lower, "compile": compile, "load": load} {
		b.ReportMetric(1e3*seconds/kernels, what+"-ms/kernel")
	}
}

// placeLater links a text of which the bodies are not parsed yet.
func placeLater(tb testing.TB, text string) *Program {
	tb.Helper()
	m, err := ParseDeclarations("text", text)
	if err != nil {
		tb.Fatal(err)
	}
	p, err := Link(m)
	if err == nil {
		_, err = p.Place(testGlobals)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return p
}
