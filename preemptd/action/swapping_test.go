// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"fmt"
	"testing"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// TestSwappingRefused: a job is not resized to fewer GPUs on which its ranks would be swapped, unless the person
// insists. A larger size is no worse than the size that the job has, and is not refused for that.
func TestSwappingRefused(t *testing.T) {
	w := newWorld(t, true)
	origins := w.openJournal(t)
	for _, name := range []string{"n1", "n2"} {
		w.srv.AddNode(slurmrest.Node{Name: name, State: slurmrest.NodeState{Base: "IDLE"}, GRES: "gpu:a100:8"})
	}
	now := w.currentJob()
	now.NodeCount, now.TRESPerNode = slurmrest.Num(2), "gres/gpu:4"
	swapsBelow := func(least int64) func(job, gpus int64) string {
		return func(job, gpus int64) string {
			if job != now.ID {
				t.Errorf("asked for job %d", job)
			}
			if gpus >= least {
				return ""
			}
			return fmt.Sprintf("%d GPUs: swapped", gpus)
		}
	}
	for name, c := range map[string]struct {
		why  func(job, gpus int64) string
		args Args
		said string
	}{
		"it fits":              {swapsBelow(4), Args{GPUs: 2}, ""},
		"it does not":          {swapsBelow(6), Args{GPUs: 2}, "4 GPUs: swapped"},
		"on fewer nodes":       {swapsBelow(6), Args{NodeCount: 1}, "4 GPUs: swapped"},
		"it does, and is told": {swapsBelow(6), Args{GPUs: 2, Swap: true}, ""},
		"it has so many":       {swapsBelow(99), Args{GPUs: 4}, ""},
		"it grows":             {swapsBelow(99), Args{GPUs: 6}, ""},
		"that is not known":    {nil, Args{GPUs: 2}, ""},
	} {
		sizes := &Sizes{Slurm: w.srv.Client(t), Proxyd: seeing{8, 8}, Journal: origins, WhySwapped: c.why}
		said := ""
		if err := sizes.CheckAction(t.Context(), &now, "resize", c.args, false); err != nil {
			said = err.Error()
		}
		if said != c.said {
			t.Errorf("%s: CheckAction: %q, want %q", name, said, c.said)
		}
	}
	if _, err := Encode("migrate", Args{Swap: true}); err == nil || err.Error() != "migrate takes no swap" {
		t.Errorf("Encode of migrate with swap: %v", err)
	}
}
