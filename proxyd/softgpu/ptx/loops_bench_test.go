// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// step is a launch of a kernel of testdata/loops.ptx.
type step struct {
	kernel      string
	grid, block Dim3
	params      []uint64
}

// loop is a program that testdata/loops.c has as well, in C.
type loop struct {
	name   string
	n      int
	rounds int // of plain C, in a turn
	steps  []step
}

// listLoops lists the programs: bound by memory, by arithmetic, and by launches.
func listLoops() []loop {
	square := func(n uint32) (grid, block Dim3) { return Dim3{(n + 31) / 32, (n + 7) / 8, 1}, Dim3{32, 8, 1} }
	line := func(n uint32) (grid, block Dim3) { return Dim3{(n + 255) / 256, 1, 1}, Dim3{256, 1, 1} }
	var out []loop
	for _, n := range []uint32{256, 1 << 20} {
		g, b := line(n)
		out = append(out, loop{"add", int(n), int(1<<25/n) + 1, []step{{"add", g, b, []uint64{addrA, addrB, uint64(n)}}}})
	}
	const n = 512
	g, b := square(n)
	out = append(out, loop{"fdtd", n, 40, []step{
		{"fdtd1", g, b, []uint64{addrB, addrC, n}}, {"fdtd2", g, b, []uint64{addrA, addrC, n}}, {"fdtd3", g, b, []uint64{addrA, addrB, addrC, n}},
	}})
	g, b = square(256)
	out = append(out, loop{"gemm", 256, 2, []step{{"gemm", g, b, []uint64{addrA, addrB, addrC, 256}}}})
	g, b = line(1 << 16)
	return append(out, loop{"mix", 1 << 16, 4, []step{{"mix", g, b, []uint64{addrA, addrB, 1 << 16}}}})
}

// prepareSteps returns a function that launches the steps of a loop. The function does no more, since a launch of the smallest loop
// takes a microsecond.
func (l loop) prepareSteps(b *testing.B, m *machine) (run func()) {
	var launches []func() error
	for _, s := range l.steps {
		k, cfg, err := m.prepareLaunch(s.kernel, s.grid, s.block, s.params...)
		if err != nil {
			b.Fatal(err)
		}
		launches = append(launches, func() error { return k.Launch(context.Background(), cfg) })
	}
	return func() {
		for _, launch := range launches {
			if err := launch(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// measureRounds returns the nanoseconds of processor time that a round of run takes. The time is read seldom: that
// takes half a microsecond.
func measureRounds(b *testing.B, run func()) float64 {
	start, rounds := cpuTime(b), 0
	for more := 1; ; more *= 2 {
		for range more {
			run()
		}
		rounds += more
		if used := cpuTime(b) - start; used >= 0.1 {
			return used * 1e9 / float64(rounds)
		}
	}
}

// BenchmarkLoops compares kernels, on a single core, with the same loops in plain C at -O2: processor time, in turns,
// the median of the turns. The interpreter is compared too.
func BenchmarkLoops(b *testing.B) {
	program := filepath.Join(b.TempDir(), "loops")
	if out, err := exec.Command("gcc", "-O2", "-o", program, "testdata/loops.c").CombinedOutput(); err != nil {
		b.Fatalf("gcc: %v\n%s", err, out)
	}
	for _, l := range listLoops() {
		for _, interpret := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/%d/%s", l.name, l.n, map[bool]string{false: "compiled", true: "interpreted"}[interpret]), func(b *testing.B) {
				m := bootMachine(b, readFile(b, "loops.ptx"))
				for i, addr := range []uint64{addrA, addrB, addrC} {
					fillFloats(m, addr, 1<<20, uint64(i))
				}
				m.cfg.Workers, m.cfg.Interpret = 1, interpret
				run := l.prepareSteps(b, m)
				run()
				var ratios, times []float64
				for b.Loop() {
					ours := measureRounds(b, run)
					out, err := exec.Command(program, l.name, strconv.Itoa(l.n), strconv.Itoa(l.rounds)).Output()
					if err != nil {
						b.Fatal(err)
					}
					theirs, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
					if err != nil {
						b.Fatal(err)
					}
					ratios, times = append(ratios, ours/theirs), append(times, ours)
				}
				slices.Sort(ratios)
				slices.Sort(times)
				b.ReportMetric(ratios[len(ratios)/2], "x-C")
				b.ReportMetric(times[len(times)/2]/1e3/float64(len(l.steps)), "us/launch")
			})
		}
	}
}
