// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package starlark

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/sdktest"
	"github.com/singularity-slurm/singularity-slurm/preemptd/plan"
)

// readRecipes returns the files in docs/policies.md, as they are there.
func readRecipes(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, part := range strings.Split(string(page), "```python\n")[1:] {
		text, _, ended := strings.Cut(part, "```")
		if !ended {
			t.Fatal("a recipe has no end")
		}
		all = append(all, text)
	}
	return all
}

// TestRecipes: each recipe of the documentation does as its text says, and its intents keep every rule. Hours are of a
// site in the east, where it is day while UTC has night.
func TestRecipes(t *testing.T) {
	setZone(t, time.FixedZone("east", 9*3600))
	day := time.Date(2026, 3, 5, 12, 0, 0, 0, zone).UTC()
	night := time.Date(2026, 3, 5, 22, 0, 0, 0, zone).UTC()
	jobs := func(verb sdk.Verb, ids ...sdk.JobID) (want []sdk.Intent) {
		for _, id := range ids {
			want = append(want, sdk.Intent{Verb: verb, Job: id})
		}
		return want
	}
	all := readRecipes(t)
	tried := map[int]bool{}
	for _, c := range []struct {
		name   string
		recipe int
		change func(s *sdk.Snapshot)
		want   []sdk.Intent
	}{
		{"tests by day", 1, func(s *sdk.Snapshot) { s.Time = day; s.Jobs[0].Name = "test-a"; s.Jobs[5].Name = "test-b" }, jobs(sdk.Preempt, 100)},
		{"tests by night", 1, func(s *sdk.Snapshot) { s.Time = night; s.Jobs[0].Name = "test-a"; s.Jobs[8].Name = "test-c" }, jobs(sdk.Release, 108)},
		{"too much for one", 2, func(s *sdk.Snapshot) {
			s.Nodes = s.Nodes[:3]
			s.Nodes[0].GPUs, s.Nodes[1].GPUs = s.Nodes[0].GPUs[:4], s.Nodes[1].GPUs[:4]
			s.Jobs[6].Account = "other"
		}, jobs(sdk.Preempt, 100)},
		{"no other job waits", 2, func(s *sdk.Snapshot) { s.Nodes = s.Nodes[:3] }, nil},
		{"a day", 3, func(s *sdk.Snapshot) { s.Jobs[6].Eligible = s.Time.Add(-25 * time.Hour) }, jobs(sdk.Requeue, 106)},
		{"old nodes", 4, func(s *sdk.Snapshot) { s.Nodes[0].Features = []string{"old"}; s.Nodes[2].State = sdk.NodeUp }, jobs(sdk.Migrate, 100)},
		{"many wait", 5, func(s *sdk.Snapshot) {
			s.Time = day
			for i := range 12 {
				j := s.Jobs[6]
				j.ID = sdk.JobID(200 + i)
				s.Jobs = append(s.Jobs, j)
			}
		}, jobs(sdk.Resize, 100)},
		{"few wait", 5, func(s *sdk.Snapshot) { s.Time = day }, nil},
	} {
		tried[c.recipe] = true
		policy, err := loadSite(all[c.recipe-1])
		if err != nil {
			t.Errorf("recipe %d: %v", c.recipe, err)
			continue
		}
		s := sampleSnapshot()
		c.change(s)
		if err := s.Check(); err != nil {
			t.Fatalf("snapshot of %s: Check: %v", c.name, err)
		}
		got, err := policy.Decide(t.Context(), s)
		if err != nil {
			t.Errorf("Decide of %s: %v", c.name, err)
			continue
		}
		if !slices.EqualFunc(got, c.want, func(a, b sdk.Intent) bool { return a.Verb == b.Verb && a.Job == b.Job && a.Reason != "" }) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
		if p := plan.Try(s, got); len(p.Rejected) > 0 {
			t.Errorf("%s: rejected %v", c.name, p.Rejected)
		}
		// A busy cluster is no reason to fail.
		large := sdktest.Cluster(sdktest.Size{Nodes: 20, GPUs: 8, Jobs: 150, Fill: 1, Seed: 5})
		if got, err := policy.Decide(t.Context(), large); err != nil {
			t.Errorf("%s: on a larger cluster: %v", c.name, err)
		} else if err := sdktest.Valid(large, got); err != nil {
			t.Errorf("%s: on a larger cluster: %v", c.name, err)
		}
	}
	if len(all) != 5 || len(tried) != len(all) {
		t.Errorf("%d recipes, %d tried", len(all), len(tried))
	}
}
