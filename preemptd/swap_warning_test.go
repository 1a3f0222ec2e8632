// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/action"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// TestSwappingText: a person that asks for a size at which ranks would be swapped is told how much memory they need,
// and which size is enough.
func TestSwappingText(t *testing.T) {
	j := &sdk.Job{ID: 7, Capsules: 2, GPUs: 8, MaxGPUs: 8, Fullest: []float64{2.4, 1.2, 0.9, 0.6}}
	for _, c := range []struct {
		gpus int
		want string
	}{
		{8, ""}, {6, ""},
		{4, "4 GPUs: the ranks that share a GPU would be swapped there, and be many times slower: by its newest checkpoint they need 120 % of the GPU's memory; " +
			"6 are enough; singctl resize --swap does it all the same"},
		{1, "1 GPU: ranks of 2 nodes would share a GPU, and if they have nothing alike be swapped there, and be many times slower: " +
			"by its newest checkpoint a node's need 240 % of the GPU's memory, and all 480 % at most; 6 are enough; singctl resize --swap does it all the same"},
	} {
		if got := swappingText(j, c.gpus); got != c.want {
			t.Errorf("swappingText for %d GPUs = %q, want %q", c.gpus, got, c.want)
		}
	}
	if d := (&requestServer{}); d.whySwapped(7, 1) != "" {
		t.Error("whySwapped judges a job before the first look")
	}
	d := &requestServer{last: &lookResult{snapshot: &sdk.Snapshot{Jobs: []sdk.Job{*j}}}}
	if d.whySwapped(7, 4) == "" || d.whySwapped(7, 6) != "" || d.whySwapped(8, 1) != "" {
		t.Errorf("4 GPUs: %q, 6 GPUs: %q, another job: %q", d.whySwapped(7, 4), d.whySwapped(7, 6), d.whySwapped(8, 1))
	}
}

// fourNodes is Slurm, the journal and the nodes of a job of four nodes with a GPU each.
type fourNodes struct{}

func (fourNodes) Nodes(context.Context) (all []slurmrest.Node, err error) {
	for _, name := range []string{"n1", "n2", "n3", "n4"} {
		all = append(all, slurmrest.Node{Name: name, State: slurmrest.NodeState{Base: "IDLE"}, GRES: "gpu:a100:1"})
	}
	return all, nil
}

func (fourNodes) Origin(context.Context, int64) (json.RawMessage, error) { return nil, nil }

func (fourNodes) Show(context.Context, *slurmrest.Job) (*rpc.Job, error) {
	shown := &rpc.Job{}
	for range 4 {
		shown.Capsules = append(shown.Capsules, &rpc.Capsule{Gpus: 1})
	}
	return shown, nil
}

func (n fourNodes) ShowWaiting(ctx context.Context, job *slurmrest.Job, _ []slurmrest.Node) (*rpc.Job, error) {
	return n.Show(ctx, job)
}

// TestFewerNodesPriced: resize --nodes is refused where the nodes that come to one GPU may need more than its memory,
// by what the job's checkpoint says of each, and the size that is enough is named. --swap insists.
func TestFewerNodesPriced(t *testing.T) {
	job := slurmrest.Job{ID: 7, State: slurmrest.State{Base: slurmrest.Running}, NodeCount: slurmrest.Num(4), Tasks: slurmrest.Num(4), TRESPerNode: "gres/gpu:1"}
	for _, c := range []struct {
		name  string
		needs float64 // of a GPU, by each node
		nodes int64
		swap  bool
		want  string
	}{
		{"they do not fit", 0.8, 1, false, "1 GPU: ranks of 4 nodes would share a GPU, and if they have nothing alike be swapped there, and be many times slower: " +
			"by its newest checkpoint a node's need 80 % of the GPU's memory, and all 320 % at most; singctl resize --swap does it all the same"},
		{"two of them do", 0.4, 1, false, "1 GPU: ranks of 4 nodes would share a GPU, and if they have nothing alike be swapped there, and be many times slower: " +
			"by its newest checkpoint a node's need 40 % of the GPU's memory, and all 160 % at most; 2 are enough; singctl resize --swap does it all the same"},
		{"on two nodes they fit", 0.4, 2, false, ""},
		{"they fit", 0.2, 1, false, ""},
		{"a person insists", 0.8, 1, true, ""},
	} {
		j := sdk.Job{ID: 7, Capsules: 4, GPUs: 4, MaxGPUs: 4, Fullest: []float64{c.needs}}
		d := &requestServer{last: &lookResult{snapshot: &sdk.Snapshot{Jobs: []sdk.Job{j}}}}
		sizes := &action.Sizes{Slurm: fourNodes{}, Proxyd: fourNodes{}, Journal: fourNodes{}, WhySwapped: d.whySwapped}
		said := ""
		if err := sizes.CheckAction(t.Context(), &job, "resize", action.Args{NodeCount: c.nodes, Swap: c.swap}, false); err != nil {
			said = err.Error()
		}
		if said != c.want {
			t.Errorf("%s: resize --nodes %d: %q, want %q", c.name, c.nodes, said, c.want)
		}
	}
}
