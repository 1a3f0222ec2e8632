// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/sdktest"
	"github.com/singularity-slurm/singularity-slurm/preemptd/plan"
)

// BenchmarkTick is a whole decision: a snapshot is given its wire form, sent to the process of
// tiers and decided there, and the intents are tried. Memory is the most that this process and
// the policy's ever had.
func BenchmarkTick(b *testing.B) {
	tiers := sdktest.BuildPolicy(b, "tiers")
	for _, jobs := range []int{1000, 10000, 50000} {
		b.Run(fmt.Sprint(jobs), func(b *testing.B) {
			p := New(Config{Name: "tiers", Path: tiers, Timeout: patience, Memory: 1 << 30}, slog.New(slog.DiscardHandler))
			defer p.Close()
			s := sdktest.Cluster(sdktest.Size{Nodes: jobs / 5, GPUs: 8, Jobs: jobs, Fill: 1, Seed: 1})
			steps, began := 0, 0.0
			for b.Loop() {
				if steps == 0 { // the first question starts the process
					if _, err := p.Ask(b.Context(), sdk.Encode(s)); err != nil {
						b.Fatal(err)
					}
					began = processorTime(b, "self") + processorTime(b, p.Status().PID)
					b.ResetTimer()
				}
				intents, err := p.Ask(b.Context(), sdk.Encode(s))
				if err != nil {
					b.Fatal(err)
				}
				tried := plan.Try(s, intents)
				if steps = len(tried.Steps); steps == 0 || len(tried.Rejected) > 0 {
					b.Fatalf("%d steps, rejected %v", steps, tried.Rejected)
				}
			}
			b.ReportMetric((processorTime(b, "self")+processorTime(b, p.Status().PID)-began)/float64(b.N), "cpu-ms")
			b.ReportMetric(float64(steps), "steps")
			b.ReportMetric(peakMemory(b, "self"), "MiB-host")
			b.ReportMetric(peakMemory(b, p.Status().PID), "MiB-policy")
		})
	}
}

// peakMemory is the most memory that a process had.
func peakMemory(b *testing.B, pid string) float64 {
	data, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "VmHWM:")
	var kib float64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		b.Fatal(err)
	}
	return kib / 1024
}

// processorTime is for how many milliseconds a process has computed: on a busy machine this says
// more than the time that passed.
func processorTime(b *testing.B, pid string) float64 {
	data, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest)
	var user, system float64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		b.Fatal(err)
	}
	return (user + system) * 10 // of a hundred a second
}
