// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// measureCosts measures the time of single calls, and the speed of copies, both natively and by proxyd.
func measureCosts(ctx context.Context, k *kit) {
	if !k.needGPU("costs") {
		return
	}
	launch := task{name: "calls", path: k.filePath("bin", "bench-launch"), limit: 50 * time.Second}
	k.addCosts("call ", k.runNatively(ctx, launch), k.runProxied(ctx, launch), benchCosts)
	copies := task{name: "copies", path: k.filePath("bin", "probe"), args: []string{"E7"}, limit: 50 * time.Second}
	k.addCosts("copy ", k.runNatively(ctx, copies), k.runProxied(ctx, copies), probeCosts)
}

// cost is a figure of a program.
type cost struct {
	name, unit string
	value      float64
}

// addCosts adds a row for each figure that a program has printed natively and by proxyd.
func (k *kit) addCosts(kind string, native, ours *programResult, read func(string) []cost) {
	if native.wasCutShort(0) || ours.wasCutShort(native.seconds) {
		k.addRow(row{Name: kind + "costs", Outcome: cannot, Why: timeOver})
		return
	}
	if native.err != nil || native.exit != 0 {
		k.addRow(row{Name: kind + "costs", Outcome: differs, Why: "natively: " + native.describeFailure()})
		return
	}
	if ours.err != nil || ours.exit != 0 {
		k.addRow(row{Name: kind + "costs", Outcome: wrong, Why: "by proxyd: " + ours.describeFailure()})
		return
	}
	here := map[string]cost{}
	for _, c := range read(ours.stdout) {
		here[c.name] = c
	}
	for _, c := range read(native.stdout) {
		w := row{Name: kind + c.name, Outcome: right, Native: c.value, Ours: here[c.name].value, Unit: c.unit}
		if k.pcie > 0 && c.unit == "GB/s" && c.name != "within the device" {
			full := k.pcie
			if strings.HasPrefix(c.name, "both") {
				full *= 2
			}
			w.Values = map[string]string{"of PCIe's speed": fmt.Sprintf("%.0f %% natively, %.0f %% by proxyd", 100*w.Native/full, 100*w.Ours/full)}
		}
		k.addRow(w)
	}
}

// benchCosts reads lines of a name, and the nanoseconds of a call in the best and in the median round.
func benchCosts(stdout string) []cost {
	var out []cost
	for line := range strings.Lines(stdout) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		if middle, err := strconv.ParseFloat(f[2], 64); err == nil {
			out = append(out, cost{f[0], "ns", middle})
		}
	}
	return out
}

// probeCosts reads the probe's numbers.
func probeCosts(stdout string) []cost {
	var out []cost
	for _, a := range readAnswers(stdout) {
		if v, err := strconv.ParseFloat(a.value, 64); err == nil && a.unit == "GB/s" {
			out = append(out, cost{a.name, a.unit, v})
		}
	}
	return out
}

// probeAnswer is an answer of the probe.
type probeAnswer struct{ question, name, value, unit string }

func readAnswers(stdout string) []probeAnswer {
	var out []probeAnswer
	for line := range strings.Lines(stdout) {
		if f := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); len(f) == 4 {
			out = append(out, probeAnswer{f[0], f[1], f[2], f[3]})
		}
	}
	return out
}

// asked are the probe's questions. E9 is PyTorch's.
var asked = []string{"E1", "E2", "E3", "E4", "E5", "E6", "E7", "E8", "E10"}

// askQuestions runs the probe natively: the answers are the driver's.
func askQuestions(ctx context.Context, k *kit) {
	if !k.needGPU("questions E1 to E10") {
		return
	}
	for _, q := range asked {
		e := k.runNatively(ctx, task{name: q, path: k.filePath("bin", "probe"), args: []string{q}, limit: 70 * time.Second})
		w := row{Name: q, Outcome: right, Values: map[string]string{}}
		for _, a := range readAnswers(e.stdout) {
			if a.name == "cannot" {
				w.Outcome, w.Why = cannot, a.value
				continue
			}
			w.Values[a.name] = strings.TrimSpace(a.value + " " + a.unit)
		}
		if len(w.Values) == 0 && e.wasCutShort(0) {
			w.Outcome, w.Why = cannot, timeOver
		}
		if len(w.Values) == 0 && w.Outcome == right {
			w.Outcome, w.Why = wrong, "the probe says nothing: "+e.describeFailure()
		}
		k.addRow(w)
	}
}
