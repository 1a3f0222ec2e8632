// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/nodesocket"
)

// leaseConductor is a node on which user 1001 has job 7, with one GPU and four devices.
func leaseConductor(t *testing.T, kind string) (*Conductor, *localCapsule) {
	t.Helper()
	c := (&Conductor{Config: Config{Node: "n1", Lib: t.TempDir(), Devices: DeviceConfig{Kind: kind}}, Deps: Deps{Log: slog.New(slog.DiscardHandler)}}).wireParts()
	j := c.jobFor(7)
	j.run.BeginNext(&records.Record{Job: 7, UID: 1001, Nodes: []string{"n1"}, GPUs: []int{4}}, 0, []string{"n1"}, nil)
	lc := &localCapsule{j: j, note: capsuleNote{Job: 7, GPUs: []string{"3", "3", "3", "3"}, OwnGPUs: 1}}
	j.capsules = map[int]*localCapsule{0: lc}
	return c, lc
}

// TestLeaseRefused: a user lends GPUs to jobs of their own only, and learns nothing of other users' jobs.
func TestLeaseRefused(t *testing.T) {
	for _, tt := range []struct {
		name, kind string
		join       nodesocket.Join
		want       string
	}{
		{"another user's job", kindSoft, nodesocket.Join{Job: 9, UID: 1002, Step: "batch", Options: map[string]string{"lease": "7"}}, errNoBorrower.Error()},
		{"no job", kindSoft, nodesocket.Join{Job: 9, UID: 1001, Step: "batch", Options: map[string]string{"lease": "8"}}, errNoBorrower.Error()},
		{"itself", kindSoft, nodesocket.Join{Job: 9, UID: 1001, Step: "batch", Options: map[string]string{"lease": "9"}}, errNoBorrower.Error()},
		{"no number", kindSoft, nodesocket.Join{Job: 9, UID: 1001, Step: "batch", Options: map[string]string{"lease": "7 8"}}, "not the number of a job"},
		{"a step", kindSoft, nodesocket.Join{Job: 9, UID: 1001, Step: "0", Options: map[string]string{"lease": "7"}}, "can run no steps"},
		{"real GPUs", kindCuda, nodesocket.Join{Job: 9, UID: 1001, Step: "batch", Options: map[string]string{"lease": "7"}}, "cannot be lent yet"},
		{"no devices", kindSoft, nodesocket.Join{Job: 9, UID: 1001, Step: "batch", Options: map[string]string{"lease": "7"}}, "has no GPUs here"},
	} {
		c, lc := leaseConductor(t, tt.kind)
		_, err := c.Join(t.Context(), tt.join)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if len(lc.note.Leases) != 0 || c.leases.borrower(9) != nil {
			t.Errorf("%s: leases %v", tt.name, lc.note.Leases)
		}
	}
}

// TestFreeDevices: leases get devices that stand for no GPU yet, and no two leases the same.
func TestFreeDevices(t *testing.T) {
	_, lc := leaseConductor(t, kindSoft)
	for _, tt := range []struct {
		leases []gpuLease
		want   []int
	}{
		{nil, []int{1, 2, 3}},
		{[]gpuLease{{Job: 9, At: []int{2}}}, []int{1, 3}},
		{[]gpuLease{{Job: 9, At: []int{2, 1}}, {Job: 10, At: []int{3}, Over: true}}, nil}, // what is not left yet is not free
	} {
		if got := lc.freeDevices(tt.leases); !slices.Equal(got, tt.want) {
			t.Errorf("leases %v: free are %v, want %v", tt.leases, got, tt.want)
		}
	}
	lc.note.OwnGPUs = 0 // the note of an older daemon, whose device server has no spare devices
	if got := lc.freeDevices(nil); got != nil {
		t.Errorf("a device server without spare devices: free are %v", got)
	}
}

// TestTooManyLent: a job is lent no more GPUs than it has devices, and the refusal leaves no lease.
func TestTooManyLent(t *testing.T) {
	c, lc := leaseConductor(t, kindSoft)
	err := lc.addLease(t.Context(), gpuLease{Job: 9, GPUs: []int{0, 1, 2, 4}})
	if err == nil || !strings.Contains(err.Error(), "it can use 4 GPUs (--singularity-gpus), and 4 more would be 1 too many") {
		t.Errorf("%v", err)
	}
	if len(lc.note.Leases) != 0 || c.leases.borrower(9) != nil || errors.Is(err, errNoBorrower) {
		t.Errorf("leases %v", lc.note.Leases)
	}
}
