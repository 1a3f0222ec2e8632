//go:build bench

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// measureParts returns the figures that benchmarks of single packages take.
func measureParts(t *testing.T, _ *cluster) (all []figure) {
	shim := runBenchmark(t, "./tests/bench/shim", ".", "1x")
	for _, p := range []struct{ name, what string }{
		{"same", "replaces the same files"}, {"new", "makes and removes files"}, {"tree", "makes files in folders"},
	} {
		m := shim["BenchmarkShim/"+p.name]
		all = append(all, figure{
			what: "shim, a program that but " + p.what + ", processor time", compared: formatPercent(m["cpu-%"]),
			pairs: fmt.Sprintf("%s (%s to %s)", formatPercent(m["cpu-%"]), formatPercent(m["cpu-low-%"]), formatPercent(m["cpu-high-%"])),
			aim:   atMost(1, "≤ 1 %"), value: m["cpu-%"],
		})
	}
	m := runBenchmark(t, "./proxyd/overlay", "Paths/stream", "12x")["BenchmarkPaths/stream"]
	all = append(all, ofBenchmark("TCP stream of capsules by vxlan, and of nodes", gigabytesPS, m["host-GB/s"]*1e9, m["vxlan-GB/s"]*1e9))
	store := runBenchmark(t, "./proxyd/store", "Write", "5x")
	for _, p := range []struct{ name, what string }{{"image", "can be compressed"}, {"noise", "cannot be compressed"}} {
		m := store["BenchmarkWrite/"+p.name]
		all = append(all,
			figureAlone("store, what "+p.what+", by a core-second", megabytesPS, atLeast(400e6, "≥ 400 MB/s"), m["MB/core-s"]*1e6),
			ofBenchmark("store, what "+p.what+", by the clock, and cp with sync", megabytesPS, m["copy-MB/s"]*1e6, m["MB/s"]*1e6))
	}
	return all
}

// ofBenchmark compares medians that a benchmark has taken.
func ofBenchmark(what string, show func(float64) string, plain, ours float64) figure {
	return figure{what: what, plain: show(plain), ours: show(ours), compared: fmt.Sprintf("× %.3f", ours/plain)}
}

// runBenchmark runs benchmarks of a package and returns their metrics, by name of benchmark and unit.
func runBenchmark(t *testing.T, pkg, pattern, times string) map[string]map[string]float64 {
	t.Helper()
	all := map[string]map[string]float64{}
	cmd := exec.Command("go", "test", "-run", "^$", "-bench", pattern, "-benchtime", times, pkg)
	cmd.Dir = root
	relayOutput(t, cmd, func(line string) {
		f := strings.Fields(line)
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			return
		}
		name := strings.TrimSuffix(f[0], "-"+strconv.Itoa(runtime.GOMAXPROCS(0)))
		all[name] = map[string]float64{}
		for i := 2; i+1 < len(f); i += 2 {
			v, err := strconv.ParseFloat(f[i], 64)
			if err != nil {
				t.Errorf("line %q of a benchmark: %v", line, err)
			}
			all[name][f[i+1]] = v
		}
	})
	if len(all) == 0 {
		t.Fatalf("no benchmark of %s reports anything", pkg)
	}
	return all
}
