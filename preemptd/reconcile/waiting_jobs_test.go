// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/chain"
)

// TestWhy: the log says once, of a job that waits and has a promise, why no action is begun for it.
func TestWhy(t *testing.T) {
	var log strings.Builder
	s := newSite(t)
	s.loop.Log = slog.New(slog.NewTextHandler(&log, nil))
	s.runTick()
	for range 3 {
		d := s.runTick()
		if len(d.Waiting) != 1 || d.Waiting[0].Job != premium || !strings.Contains(d.Waiting[0].Why, "no policy is configured") || !strings.Contains(d.Waiting[0].Why, "these gave way: job 1") {
			t.Fatalf("waiting jobs = %+v", d.Waiting)
		}
	}
	if n := strings.Count(log.String(), "msg=waits"); n != 1 {
		t.Errorf("told %d times:\n%s", n, log.String())
	}
	s.settings.Rules.MinRun = 2 * time.Hour
	s.settings.Policies = []chain.NamedPolicy{forPremium}
	if d := s.runTick(); len(d.Waiting) != 1 || !strings.Contains(d.Waiting[0].Why, "preempt job 1, parked is against the rule min-run") || !strings.Contains(d.Waiting[0].Why, "job 1: running for less than 2h0m0s") {
		t.Errorf("waiting jobs under min-run = %+v", d.Waiting)
	}
	s.settings.Rules.MinRun = 0
	if d := s.runTick(); len(d.Waiting) != 0 {
		t.Errorf("an action is begun for the job, but it counts as waiting: %+v", d.Waiting)
	}
}

// TestWhyPremiumFirst: of many jobs that wait, the jobs that are promised most are explained.
func TestWhyPremiumFirst(t *testing.T) {
	s := &sdk.Snapshot{}
	for id := range sdk.JobID(2 * maxExplained) {
		s.Jobs = append(s.Jobs, sdk.Job{ID: id + 1, State: sdk.Waiting, Tier: sdk.Standard, GPUs: 1, Capsules: 1})
	}
	s.Jobs[2*maxExplained-1].Tier = sdk.Premium
	all := explainWaiting(Settings{}, s, &Decision{})
	if len(all) != maxExplained || all[0].Job != 2*maxExplained || all[1].Job != 1 {
		t.Errorf("explainWaiting of many jobs = %+v", all)
	}
}
