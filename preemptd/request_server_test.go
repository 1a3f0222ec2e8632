// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/sdktest"
	"github.com/singularity-slurm/singularity-slurm/preemptd/config"
)

// TestInfeasibleIsTold: the state of a job, running or waiting, names promises that cannot be kept, as of the last
// look.
func TestInfeasibleIsTold(t *testing.T) {
	runs := sdktest.RunOn(sdktest.WaitingJob(1, sdk.Premium, 8), 0, 8, 0)
	d := &requestServer{controller: &controller{policies: newPolicies(slog.New(slog.DiscardHandler))}}
	d.cfg.Store(&config.Config{})
	for _, c := range []struct {
		waits                 int // GPUs
		running, waiting, all string
	}{
		{waits: 8},
		{9, "not all promises can be kept: premium: 16.2 GPUs are promised, 16 are there",
			"its promise cannot be kept: it asks for 9 GPUs on one node, and no node that it may use has more than 8; not all promises can be kept: premium: 16.2 GPUs are promised, 16 are there",
			"premium: 16.2 GPUs are promised, 16 are there"},
	} {
		look := lookResult{snapshot: sdktest.SmallCluster(2, runs, sdktest.WaitingJob(2, sdk.Premium, c.waits))}
		d.setDecision(look.decision, look.snapshot)
		state := d.apiState()
		if running, waiting := state.Standing(1).GetInfeasible(), state.Standing(2).GetInfeasible(); running != c.running || waiting != c.waiting {
			t.Errorf("with %d GPUs asked for, Infeasible is %q and %q", c.waits, running, waiting)
		}
		if want := slices.DeleteFunc([]string{c.all}, func(line string) bool { return line == "" }); !slices.Equal(state.Unkept(), want) {
			t.Errorf("with %d GPUs asked for, Unkept is %q", c.waits, state.Unkept())
		}
	}
}
