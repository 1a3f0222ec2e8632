// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"fmt"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
	"github.com/singularity-slurm/singularity-slurm/tests/workloads/slicing"
)

// rungCase is a training, and how its four ranks share devices when it ends.
type rungCase struct {
	slicing.Case
	rungs   [3]string // on one device, on two, and on three
	oneRank bool      // a device has memory for a single rank
	why     string    // why no kernel runs once after the first step, "": some do
}

// The reasons that devices give for kernels that did not run once for all: why in package softgpu.
const (
	whyDiffered = "what they read differed when it was compared before"
	whyDear     = "to compare what they read would have taken longer"
)

// allDevices is the same rung, on any number of devices.
func allDevices(rung string) [3]string { return [3]string{rung, rung, rung} }

// rungCases are trainings of each kind that docs/splicing.md names. Where ranks have no equal launches, there are as
// many steps as a device needs to notice: recentLaunches of package softgpu.
var rungCases = []rungCase{
	{Case: slicing.Case{Name: "mlp", Steps: 3}, rungs: allDevices(server.RungSplice)},
	{Case: slicing.Case{Name: "mlp", Steps: 3, Args: []string{"--accumulate", "3"}}, rungs: allDevices(server.RungSplice)},
	{Case: slicing.Case{Name: "gpt", Steps: 2, Args: []string{"--recompute"}}, rungs: allDevices(server.RungSplice)},
	{Case: slicing.Case{Name: "grid", Steps: 3}, rungs: allDevices(server.RungSplice)},
	// Two ranks have not learned yet which parts of their memory are alike, four have.
	{Case: slicing.Case{Name: "streams", Steps: 4}, rungs: [3]string{server.RungSplice, server.RungResident, server.RungResident}},
	{Case: slicing.Case{Name: "mlp", Steps: 95, Args: []string{"--zero", "1"}}, rungs: allDevices(server.RungResident), why: whyDiffered},
	{Case: slicing.Case{Name: "mlp", Steps: 95, Args: []string{"--zero", "3"}}, rungs: allDevices(server.RungResident), why: whyDiffered},
	// The gathered parameters are equal, and there once; the rest is swapped. They are large beside the work of a kernel.
	{Case: slicing.Case{Name: "mlp", Steps: 3, Args: []string{"--zero", "1", "--extra", "1000000"}}, rungs: allDevices(server.RungSwap), oneRank: true, why: whyDear},
}

// TestRungs: ranks that share devices compute the bits of ranks with a device each, for each kind of training, and
// share the devices in the way that is expected. Where the ranks have no equal launches, each device says so.
func TestRungs(t *testing.T) {
	for _, c := range rungCases {
		t.Run(c.String(), func(t *testing.T) {
			w := needWorld(t)
			alone := c.Share(t, w, 4)
			for i, rung := range c.rungs {
				if i > 0 && testing.Short() {
					break
				}
				flags := []string{"--on", fmt.Sprint(i + 1)}
				if c.oneRank {
					flags = append(flags, "--memory", fmt.Sprint(alone.Peak))
				}
				shared := c.Share(t, w, 4, flags...)
				what := fmt.Sprintf("%d devices", i+1)
				checkSame(t, what, shared.Lines, alone.Lines)
				if once := shared.Once > 0; once != (rung == server.RungSplice) {
					t.Errorf("%s: %d kernels ran once after the first step", what, shared.Once)
				}
				if want := []int{1, 2, 1}[i]; len(shared.Shared) != want {
					t.Errorf("%s: %d devices are shared, want %d", what, len(shared.Shared), want)
				}
				for _, d := range shared.Shared {
					if d.Rung != rung {
						t.Errorf("%s: the rung is %q, want %q: %+v", what, d.Rung, rung, d)
					}
					if c.oneRank && d.Saved == 0 {
						t.Errorf("%s: nothing is there once: %+v", what, d)
					}
					if c.why != "" && d.Why != c.why {
						t.Errorf("%s: kernels ran for their rank, because %q, want %q", what, d.Why, c.why)
					}
				}
			}
		})
	}
}
