// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/sdktest"
	"github.com/singularity-slurm/singularity-slurm/preemptd/config"
	"github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
)

// TestTry asks the real policies about a made cluster: no action is begun, for there is neither a journal nor a
// Slurm.
func TestTry(t *testing.T) {
	folder := sdktest.BuildFolder(t, "tiers", "starlark")
	cfg, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Policies = []string{"tiers"}
	cfg.Policy.Folder, cfg.Policy.Settings, cfg.Policy.Timeout = folder, folder, 2*time.Minute
	c := &controller{daemonOptions: daemonOptions{log: slog.New(slog.DiscardHandler)}}
	c.cfg.Store(cfg)
	d := &requestServer{controller: c, trying: make(chan struct{}, 1)}
	t.Setenv("TMPDIR", folder)
	snapshot, err := sdk.Marshal(sdktest.Cluster(sdktest.Size{Nodes: 20, GPUs: 8, Jobs: 200, Fill: 1, Seed: 1}))
	if err != nil {
		t.Fatal(err)
	}
	hold := "def decide(c):\n    return [hold(j, \"full\") for j in c.jobs if j.state in (\"running\", \"waiting\")][:5]\n"
	for _, try := range []struct {
		name     string
		req      *rpc.TryRequest
		policies string
		problem  string // of the last; or of all, if there are no policies
		accepted bool
		rejected bool
	}{
		{"as configured", &rpc.TryRequest{Snapshot: snapshot}, "tiers", "", true, false},
		{"a file", &rpc.TryRequest{Snapshot: snapshot, File: hold, FileName: "mine.star"}, "starlark", "", false, true},
		{"after another", &rpc.TryRequest{Snapshot: snapshot, File: hold, Policies: []string{"tiers", "starlark"}}, "tiers starlark", "", false, true},
		{"a file that is wrong", &rpc.TryRequest{Snapshot: snapshot, File: "def decide(c):\n    return c.colour\n", FileName: "../mine.star"}, "starlark", "refusal: mine.star:2:14: a cluster has no .colour", false, false},
		{"no such policy", &rpc.TryRequest{Snapshot: snapshot, Policies: []string{"absent"}}, "", "sing-policy-absent: no such file", false, false},
		{"a path", &rpc.TryRequest{Snapshot: snapshot, Policies: []string{"../tiers"}}, "", "named as in the configuration", false, false},
		{"a file for none", &rpc.TryRequest{Snapshot: snapshot, File: hold, Policies: []string{"tiers"}}, "", "not among those named", false, false},
		{"no snapshot", &rpc.TryRequest{Snapshot: []byte("x")}, "", "snapshot: ", false, false},
	} {
		reply, err := d.tryPolicies(t.Context(), try.req)
		if try.policies == "" {
			if err == nil || !strings.Contains(err.Error(), try.problem) {
				t.Errorf("tryPolicies of %s: %v, want %q", try.name, err, try.problem)
			}
			continue
		}
		if err != nil {
			t.Errorf("tryPolicies of %s: %v", try.name, err)
			continue
		}
		var names []string
		for _, p := range reply.GetPolicies() {
			names = append(names, p.GetPolicy())
		}
		last := reply.GetPolicies()[len(names)-1]
		if strings.Join(names, " ") != try.policies || !strings.Contains(last.GetProblem(), try.problem) || (last.GetProblem() == "") != (try.problem == "") {
			t.Errorf("tryPolicies of %s: policies %v, problem %q", try.name, names, last.GetProblem())
		}
		if try.accepted != (len(last.GetAccepted()) > 0) && try.problem == "" && !try.rejected || try.rejected && len(last.GetRejected()) == 0 {
			t.Errorf("%s: accepted %v, rejected %v", try.name, last.GetAccepted(), last.GetRejected())
		}
	}
	said := "def decide(c):\n    print(\"%d jobs at %d\" % (len(c.jobs), c.time))\n    print(c.hour)\n"
	at := time.Date(2026, 3, 7, 22, 30, 0, 0, time.UTC)
	reply, err := d.tryPolicies(t.Context(), &rpc.TryRequest{Snapshot: snapshot, File: said, At: timestamppb.New(at)})
	if err != nil || len(reply.GetPolicies()) != 1 {
		t.Fatalf("tryPolicies at another time = %v, %v", reply, err)
	}
	if got, want := strings.Join(reply.GetPolicies()[0].GetPrinted(), "\n"), fmt.Sprintf("200 jobs at %d\n22", at.Unix()); got != want || !reply.GetTime().AsTime().Equal(at) {
		t.Errorf("at %v it printed %q, want %q", reply.GetTime().AsTime(), got, want)
	}
	left, err := filepath.Glob(filepath.Join(folder, "preemptd-try-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("folders are left: %v, %v", left, err)
	}
}
