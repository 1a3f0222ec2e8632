// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/life"
	"github.com/singularity-slurm/singularity-slurm/proxyd/nodesocket"
)

// leaseConductor is a node on which user 1001 has job 7, with a single GPU and four devices.
func leaseConductor(t *testing.T, kind string) (*Conductor, *localCapsule) {
	t.Helper()
	c := (&Conductor{Config: Config{Node: "n1", Lib: t.TempDir(), Devices: DeviceConfig{Kind: kind}}, Deps: Deps{Log: slog.New(slog.DiscardHandler)}}).linkPartsToConductor()
	j := c.jobFor(7)
	j.run.BeginNext(&records.Record{Job: 7, UID: 1001, Nodes: []string{"n1"}, GPUs: []int{4}}, 0, []string{"n1"}, nil)
	lc := &localCapsule{j: j, note: capsuleNote{Job: 7, GPUs: []string{"3", "3", "3", "3"}, OwnGPUs: 1}}
	j.capsules = map[int]*localCapsule{0: lc}
	return c, lc
}

// TestLeaseRefused: a user lends GPUs to jobs of their own only, and cannot learn whether other users' jobs exist.
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
		if len(lc.note.Leases) != 0 || c.leases.findBorrower(9) != nil {
			t.Errorf("%s: leases %v", tt.name, lc.note.Leases)
		}
	}
}

// TestTooManyLent: a job is lent no more GPUs than its devices, and the refusal leaves no lease.
func TestTooManyLent(t *testing.T) {
	c, lc := leaseConductor(t, kindSoft)
	lc.devices = &life.Server{}
	err := lc.j.addLease(t.Context(), 9, []int{0, 1, 2, 4})
	if err == nil || !strings.Contains(err.Error(), "it can use 4 GPUs (--singularity-gpus), and 4 more would be 1 too many") {
		t.Errorf("addLease of 4 GPUs to a job that can use 3 more: %v", err)
	}
	if len(lc.note.Leases) != 0 || c.leases.findBorrower(9) != nil || errors.Is(err, errNoBorrower) {
		t.Errorf("leases after a refused lease: %v, want none", lc.note.Leases)
	}
}
