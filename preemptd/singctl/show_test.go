// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// TestSharingNotes: notes on capsules that share a GPU are printed once, with the names of the capsules.
func TestSharingNotes(t *testing.T) {
	capsule := func(index uint32, node, server string, switches uint64) *rpc.Capsule {
		return &rpc.Capsule{Index: index, Node: node, Devices: &rpc.Devices{Server: server, Sharing: []*rpc.Sharing{{Devices: 1, Switches: switches}}}}
	}
	all := []*rpc.Capsule{
		capsule(0, "n1", "7.1.0", 5), capsule(1, "n1", "7.1.0", 5), capsule(2, "n1", "7.1.0", 5), capsule(3, "n2", "7.1.0", 9),
		capsule(4, "n2", "", 3), capsule(5, "n2", "", 0), {Index: 6, Node: "n3"},
		{Index: 7, Node: "n4", Devices: &rpc.Devices{Sharing: []*rpc.Sharing{{Devices: 2, Switches: 4}, {}, {Devices: 2, Switches: 6}}}},
		{Index: 8, Node: "n5", Devices: &rpc.Devices{Sharing: []*rpc.Sharing{
			{Devices: 1, Spaces: 2, Switches: 1, SwitchTime: durationpb.New(61 * time.Second), Rung: "resident", Own: 4812, Why: "the processes use several GPUs, so their addresses differ"}}}},
	}
	var got []string
	for _, c := range all {
		got = append(got, sharingNotes(c, all)...)
	}
	want := []string{
		"capsules 0, 1 and 2: they take turns on one GPU; switching cost 0 ms so far",
		"  5 switches, 0 in the middle of work",
		"capsule 3: while the GPU was shared: switching cost 0 ms",
		"  9 switches, 0 in the middle of work",
		"capsule 4: while the GPU was shared: switching cost 0 ms",
		"  3 switches, 0 in the middle of work",
		"capsule 7, GPU 0 of its 3 on the node: 2 GPUs that its programs see take turns on 1 of the node; switching cost 0 ms so far",
		"  4 switches, 0 in the middle of work",
		"capsule 7, GPU 2 of its 3 on the node: 2 GPUs that its programs see take turns on 1 of the node; switching cost 0 ms so far",
		"  6 switches, 0 in the middle of work",
		"capsule 8: the job's processes take turns on the GPU; switching cost 1m1s so far",
		"  rung resident; 1 switch, 0 in the middle of work; 0 of 4812 kernels took the result of another process, " +
			"mostly because the processes use several GPUs, so their addresses differ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("sharingNotes = %q, want %q", got, want)
	}
}

// TestReachableWhileItWaits: while the job waits to run again, show prints where clients outside reach it, by the
// newest event.
func TestReachableWhileItWaits(t *testing.T) {
	events := []*rpc.Event{
		{Event: "reachable", Text: "port 8000 at ctl:7001"}, {Event: "left"},
		{Event: "reachable", Text: "port 8000 at ctl:7008, not port 6006: it has 16, as many as port 1, port 2 at most, port 80 at [fe80::1]:7009"}, {Event: "left"},
	}
	now := []*rpc.Capsule{{Reachable: []*rpc.Reachable{{Port: 8000, At: "ctl:7010"}}}}
	for name, c := range map[string]struct {
		job  *rpc.Job
		want string
	}{
		"it waits": {&rpc.Job{State: "PENDING", Timeline: events},
			"port 8000 is reachable at ctl:7008, when the job runs again\nport 80 is reachable at [fe80::1]:7009, when the job runs again\n"},
		"it is held":      {&rpc.Job{State: "REQUEUE_HOLD", Timeline: events[:2]}, "port 8000 is reachable at ctl:7001, when the job runs again\n"},
		"it runs":         {&rpc.Job{State: "RUNNING", Timeline: events, Capsules: now}, "port 8000 is reachable at ctl:7010\n"},
		"its run begins":  {&rpc.Job{State: "RUNNING", Timeline: events}, ""},
		"it has ended":    {&rpc.Job{State: "COMPLETED", Timeline: events}, ""},
		"it has no ports": {&rpc.Job{State: "PENDING", Timeline: events[1:2]}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			showCommand{&app{stdout: &out}}.printReachable(c.job)
			if out.String() != c.want {
				t.Errorf("got:\n%s\nwant:\n%s", out.String(), c.want)
			}
		})
	}
}
