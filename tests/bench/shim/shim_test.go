// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package shim measures the cost of libsingshim.so for a program that does little else than write small files.
package shim

import (
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// makeList makes a list of files, as proxyd does; docs and libsingshim/shim/list.h describe the format of the list.
func makeList(tb testing.TB, path string) {
	tb.Helper()
	b := make([]byte, 4<<20)
	copy(b, "SINGLST1")
	binary.LittleEndian.PutUint64(b[8:], 1)
	copy(b[24:40], "benchmark       ")
	binary.LittleEndian.PutUint64(b[64:], 128)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		tb.Fatal(err)
	}
}

func buildProgram(tb testing.TB, dir string) (program, library string) {
	tb.Helper()
	program, library = filepath.Join(dir, "io"), filepath.Join(dir, "libsingshim.so")
	for _, c := range [][]string{
		{"make", "-s", "-C", "../../../libsingshim", "O=" + dir},
		{"cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, "testdata/io.c"},
	} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			tb.Fatalf("%v: %v: %s", c, err, out)
		}
	}
	return program, library
}

// took has the times of a run of the program, in nanoseconds.
type took struct{ wall, cpu float64 }

// other is a second shim for the comparison, instead of a run without a shim.
var other = flag.String("other", "", "a libsingshim.so to compare with, instead of with none")

// BenchmarkShim runs the program with and without the shim in turn. Of the pairs the benchmark
// reports medians: "cpu-%" is the processor time that the shim adds to the program's, half
// of the pairs lie between "cpu-low-%" and "cpu-high-%"; "wall-%" is the time by the clock,
// which a busy disk blurs.
func BenchmarkShim(b *testing.B) {
	// The folder is not below /tmp: the shim does not record files there.
	dir, err := os.MkdirTemp("/var/lib", "bench-shim-")
	if err != nil {
		b.Skip("SKIP: needs a folder outside /tmp: ", err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	program, library := buildProgram(b, dir)
	list := filepath.Join("/dev/shm", filepath.Base(dir)) // a tmpfs, as /run is
	b.Cleanup(func() { os.Remove(list) })
	for _, pattern := range []struct {
		name  string
		count int
	}{{"same", 1000}, {"new", 2000}, {"tree", 500}, {"write", 20000}, {"start", 30}} {
		b.Run(pattern.name, func(b *testing.B) {
			once := func(with bool) (t took) {
				work := filepath.Join(dir, "work")
				if err := os.Mkdir(work, 0o755); err != nil {
					b.Fatal(err)
				}
				defer os.RemoveAll(work)
				cmd := exec.Command(program, pattern.name, strconv.Itoa(pattern.count))
				cmd.Dir, cmd.Env = work, []string{}
				if preload := map[bool]string{true: library, false: *other}[with]; preload != "" {
					makeList(b, list)
					cmd.Env = []string{"LD_PRELOAD=" + preload, "SINGULARITY_SLURM_FILES=" + list}
				}
				out, err := cmd.Output()
				if err != nil {
					b.Fatal(err)
				}
				if _, err := fmt.Sscan(string(out), &t.wall, &t.cpu); err != nil {
					b.Fatal(err)
				}
				return t
			}
			var wall, cpu, plain []float64
			for i := range max(b.N, 100) {
				// The runs with and without the shim are first equally often.
				var with, without took
				if i%2 == 0 {
					with, without = once(true), once(false)
				} else {
					without, with = once(false), once(true)
				}
				wall = append(wall, 100*(with.wall/without.wall-1))
				cpu = append(cpu, 100*(with.cpu/without.cpu-1))
				plain = append(plain, without.wall/float64(pattern.count)/1000)
			}
			b.ReportMetric(medianOf(wall), "wall-%")
			b.ReportMetric(medianOf(cpu), "cpu-%")
			b.ReportMetric(cpu[len(cpu)/4], "cpu-low-%") // median has sorted them
			b.ReportMetric(cpu[len(cpu)*3/4], "cpu-high-%")
			b.ReportMetric(medianOf(plain), "µs/round")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func medianOf(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}
