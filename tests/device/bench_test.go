// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/tests/device/soft"
)

// BenchmarkCalls measures the cost of calls for a program; testdata/bench/launch.c describes them:
//
//	go test -run=- -bench=Calls -benchtime=1x ./tests/device
func BenchmarkCalls(b *testing.B) {
	w := soft.Need(b)
	path := w.Compile(b, "testdata/bench/launch.c", "-O2", "-Itests/device/testdata")
	for b.Loop() {
		r := w.Run(b, soft.Program{Devices: 1, Path: path, Limit: time.Minute})
		if r.Exit != 0 {
			b.Fatal(r.Exit, r.Stderr)
		}
		for line := range strings.Lines(r.Stdout) {
			var name string
			var best, middle float64
			if _, err := fmt.Sscan(line, &name, &best, &middle); err != nil {
				b.Fatalf("%q: %v", line, err)
			}
			b.ReportMetric(best, name+"-best-ns")
			b.ReportMetric(middle, name+"-middle-ns")
		}
	}
	b.ReportMetric(0, "ns/op") // hides the time of a whole run, which has no meaning
}

// BenchmarkCopies reports the speed of copies to a device and back as a part of memcpy's speed: of the best and the
// median turn.
func BenchmarkCopies(b *testing.B) {
	w := soft.Need(b)
	path := w.Compile(b, "testdata/bench/copy.c", "-O2", "-Itests/device/testdata")
	for b.Loop() {
		r := w.Run(b, soft.Program{Devices: 1, Path: path, Limit: time.Minute})
		if r.Exit != 0 {
			b.Fatal(r.Exit, r.Stderr)
		}
		for line := range strings.Lines(r.Stdout) {
			var name string
			var best, middle, memcpy float64
			if _, err := fmt.Sscan(line, &name, &best, &middle, &memcpy); err != nil {
				b.Fatalf("%q: %v", line, err)
			}
			b.ReportMetric(best, name+"-best")
			b.ReportMetric(middle, name+"-middle")
			b.ReportMetric(memcpy, name+"-memcpy-GB/s")
		}
	}
	b.ReportMetric(0, "ns/op") // hides the time of a whole run, which has no meaning
}
