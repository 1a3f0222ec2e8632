//go:build bench

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
	"github.com/singularity-slurm/singularity-slurm/tests/device/soft"
	"github.com/singularity-slurm/singularity-slurm/tests/workloads/slicing"
)

// slicedRanks is how many ranks each workload has, as in Figure 4.
const slicedRanks = 8

// slicedCases are the workloads, and on how many devices their ranks are.
var slicedCases = []struct {
	slicing.Case
	devices int
}{
	{slicing.Case{Name: "mlp", Steps: 24}, 2},
	{slicing.Case{Name: "mlp", Steps: 24, Args: []string{"--statistics"}}, 2},
	{slicing.Case{Name: "mlp", Steps: 3, Args: []string{"--extra", "1000000"}}, 2},
	{slicing.Case{Name: "gpt", Steps: 12, Before: 50}, 2},
	{slicing.Case{Name: "grid", Steps: 12, Before: 50}, 4},
}

// slicedWays are the ways in which ranks share a device: with room for the memory of all ranks, and of only one rank.
var slicedWays = []struct {
	name, rung string
	swaps      bool
}{
	{"alias", server.RungAlias, false},
	{"splice", server.RungSplice, false},
	{"splice, memory of one rank", server.RungSplice, true},
}

// measureSlicing returns Figure 4: ranks on fewer devices, in turns with the same ranks on devices of their own. They print the
// same.
func measureSlicing(t *testing.T) string {
	w := soft.Need(t)
	if err := w.Command("make", "-s", "-C", "tests/workloads", "O="+w.Dir); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("| workload | config | way | overhead, modelled | mini-batch, devices of their own | shared | by the clock (half of the pairs between, how many) |\n")
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, c := range slicedCases {
		for _, line := range sliceInTurns(t, w, c.Case, c.devices) {
			t.Log(line)
			b.WriteString(line)
		}
	}
	return b.String()
}

// sliceInTurns runs a workload in each way, beside a run with devices of their own, and returns the lines of the table.
func sliceInTurns(t *testing.T, w *soft.World, c slicing.Case, devices int) (lines []string) {
	t.Helper()
	memory := max(c.Run(t, w, slicedRanks, 1, "--memory", "1G").Peak, backend.Granule)
	overheads, clocks := make([][]float64, len(slicedWays)), make([]turns, len(slicedWays))
	for i := range *paperRounds {
		share := func(way int) slicing.Run {
			flags := []string{"--on", fmt.Sprint(devices), "--rung", slicedWays[way].rung, "--memory", "1G"}
			if slicedWays[way].swaps {
				flags[len(flags)-1] = fmt.Sprint(memory)
			}
			return c.Share(t, w, slicedRanks, flags...)
		}
		var alone slicing.Run
		shared := make([]slicing.Run, len(slicedWays))
		if i%2 == 0 {
			alone = c.Share(t, w, slicedRanks, "--memory", "1G")
		}
		for way := range slicedWays {
			shared[way] = share(way)
		}
		if i%2 == 1 {
			alone = c.Share(t, w, slicedRanks, "--memory", "1G")
		}
		for way, run := range shared {
			if !slices.Equal(run.Lines, alone.Lines) {
				t.Errorf("%s: %d ranks on %d devices compute what they do not compute on devices of their own", &c, slicedRanks, devices)
			}
			overheads[way] = append(overheads[way], c.Overhead(slicedRanks, alone, run))
			clocks[way].add(alone.Took.Seconds()/float64(c.Steps), run.Took.Seconds()/float64(c.Steps))
		}
	}
	for i, way := range slicedWays {
		f := clocks[i].ratio("", formatMilliseconds, noAim)
		lines = append(lines, fmt.Sprintf("| %s | %d-on-%d | %s | %s | %s | %s | %s |\n", &c, slicedRanks, devices, way.name,
			formatSpread(overheads[i], "%+.1f %%"), f.plain, f.ours, f.pairs))
	}
	return lines
}
