// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package jobrequest

import (
	"strings"
	"testing"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// TestCheckUse: programs can use the nodes and GPUs with which they began, and no more.
func TestCheckUse(t *testing.T) {
	one := Request{Nodes: 1, Tasks: 4, TRESNode: "gres/gpu:a100:1"}
	for name, c := range map[string]struct {
		began       InitialSize
		now, wanted Request
		said        string // "" if it can
	}{
		"within its range":       {InitialSize{GPUs: []int64{4}, Range: "1-4"}, one, Request{Nodes: 1, TRESNode: "gres/gpu:a100:4"}, ""},
		"beyond its range":       {InitialSize{GPUs: []int64{4}, Range: "1-4"}, one, Request{Nodes: 1, TRESNode: "gres/gpu:a100:5"}, "5 GPUs on a node: its programs see 4 there, and can use no more: 1 to 4 are possible (it was submitted with --singularity-gpus=1-4)"},
		"without a range":        {InitialSize{GPUs: []int64{1}}, one, Request{Nodes: 1, TRESNode: "gres/gpu:2"}, "submitted with --singularity-gpus=MIN-MAX)"},
		"of no known number":     {InitialSize{GPUs: []int64{1}, Estimated: true}, one, Request{Nodes: 1, TRESNode: "gres/gpu:2"}, "no node knows whether they see more"},
		"without GPUs":           {InitialSize{GPUs: []int64{0}}, Request{Nodes: 1}, Request{Nodes: 1, TRESNode: "gres/gpu:1"}, "began without GPUs"},
		"two nodes on one":       {InitialSize{GPUs: []int64{2, 2}}, Request{Nodes: 2, TRESNode: "gres/gpu:2"}, Request{Nodes: 1, TRESNode: "gres/gpu:4"}, ""},
		"too many on that one":   {InitialSize{GPUs: []int64{2, 2}}, Request{Nodes: 2, TRESNode: "gres/gpu:2"}, Request{Nodes: 1, TRESNode: "gres/gpu:5"}, "its programs see 4 there"},
		"grows back":             {InitialSize{GPUs: []int64{2, 2}}, Request{Nodes: 1, TRESNode: "gres/gpu:1"}, Request{Nodes: 2, TRESNode: "gres/gpu:2"}, ""},
		"more nodes than it has": {InitialSize{GPUs: []int64{0, 0}}, Request{Nodes: 2}, Request{Nodes: 3}, "3 nodes: its programs began on 2 nodes and can be on no more: 1 to 2 nodes are possible"},
		"GPUs of the whole job":  {InitialSize{GPUs: []int64{2, 2}}, Request{Nodes: 2, TRESJob: "gres/gpu:2"}, Request{Nodes: 2, TRESJob: "gres/gpu:6"}, "3 GPUs on each of 2 nodes"},
		"has too many already":   {InitialSize{GPUs: []int64{1}}, Request{Nodes: 1, TRESNode: "gres/gpu:4"}, Request{Nodes: 1, TRESNode: "gres/gpu:3"}, ""},
	} {
		err := c.began.CheckUse(c.now, c.wanted)
		if (err == nil) != (c.said == "") || err != nil && !strings.Contains(err.Error(), c.said) {
			t.Errorf("CheckUse, %s: %v, want %q", name, err, c.said)
		}
	}
}

// TestPlace: GPUs that no node has, and GPUs that no node has idle.
func TestPlace(t *testing.T) {
	up := slurmrest.NodeState{Base: "IDLE"}
	p := AllowedNodes{Partition: "debug,long", Own: map[string]int64{"n1": 1}, Nodes: []slurmrest.Node{
		{Name: "n1", State: up, Partitions: []string{"debug"}, GRES: "gpu:a100:4(S:0-1)", GRESUsed: "gpu:a100:3(IDX:0-2)"},
		{Name: "n2", State: up, Partitions: []string{"debug"}, GRES: "gpu:2,nic:4", GRESUsed: "gpu:0"},
		{Name: "n3", State: slurmrest.NodeState{Base: "DOWN"}, Partitions: []string{"long"}, GRES: "gpu:8"},
		{Name: "n4", State: up, Partitions: []string{"other"}, GRES: "gpu:16"},
	}}
	for name, c := range map[string]struct {
		wanted     Request
		ever, idle string
	}{
		"fits":              {Request{Nodes: 2, TRESNode: "gres/gpu:2"}, "", ""},
		"on a busy node":    {Request{Nodes: 1, TRESNode: "gres/gpu:4"}, "", "4 GPUs on a node: in partition debug,long no node has so many idle, with those that the job has itself; the most on a node is 2"},
		"on a node down":    {Request{Nodes: 1, TRESNode: "gres/gpu:8"}, "", "no node has so many idle"},
		"on no node":        {Request{Nodes: 1, TRESNode: "gres/gpu:9"}, "9 GPUs on a node: in partition debug,long no node has so many; the most on a node is 8", "idle"},
		"on too few":        {Request{Nodes: 3, TRESNode: "gres/gpu:4"}, "only 2 nodes have so many", "idle"},
		"of its type":       {Request{Nodes: 1, TRESNode: "gres/gpu:a100:5"}, "5 GPUs of type a100 on a node", "idle"},
		"where it must be":  {Request{Nodes: 1, Required: "n2", TRESNode: "gres/gpu:4"}, "in the nodes named, n2, no node has", "idle"},
		"where it does not": {Request{Nodes: 1, Excluded: "n[1,3]", TRESNode: "gres/gpu:4"}, "the most on a node is 2", "idle"},
		"nodes":             {Request{Nodes: 4}, "4 nodes: partition debug,long has 3 that the job may use", "2 that the job may use"},
	} {
		for _, check := range []struct {
			err  error
			said string
		}{{p.CheckNodes(c.wanted), c.ever}, {p.CheckIdle(c.wanted), c.idle}} {
			if (check.err == nil) != (check.said == "") || check.err != nil && !strings.Contains(check.err.Error(), check.said) {
				t.Errorf("CheckNodes or CheckIdle, %s: %v, want %q", name, check.err, check.said)
			}
		}
	}
}
