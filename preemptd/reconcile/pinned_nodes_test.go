// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// TestUnpin: a job that was moved, and that Slurm has requeued since, does not wait for the node of the move; not
// at once, and not if its user asked for that node.
func TestUnpin(t *testing.T) {
	for name, c := range map[string]struct {
		asked    string
		ago      time.Duration
		who      string
		restarts int64
		want     string
	}{
		"it waits":                {"", time.Hour, "", 0, ""},
		"a moment later":          {"", 0, "", 0, "n2"},
		"its own wish":            {"n2", time.Hour, "", 0, "n2"},
		"other wish":              {"n1", time.Hour, "", 0, "n1"},
		"a policy's":              {"", time.Hour, "policy drain", 0, ""},
		"a person's":              {"", time.Hour, "alice", 0, "n2"},
		"a person's, and it ran":  {"", time.Hour, "alice", 1, ""},
		"a person's, of this run": {"n1", time.Hour, "alice", 0, "n2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.srv.EditJob(premium, func(j *slurmrest.Job) { j.RequiredNodes, j.Restarts = "n2", 4+c.restarts })
			s.journalPin(c.asked, c.who, 4)
			s.loop.Journal = acted{s.journal, time.Now().Add(-c.ago)}
			s.runTick()
			if j := s.readJob(premium); j.RequiredNodes != c.want || j.Held {
				t.Errorf("the job requires nodes %q, want %q; held %v", j.RequiredNodes, c.want, j.Held)
			}
		})
	}
}

// journalPin has the journal say that a person gave the premium job n2 in the place of the requested node.
func (s *site) journalPin(asked, who string, restarts int64) {
	s.Helper()
	record := fmt.Sprintf(`{"asked": {"required": %q, "nodes": 2, "tresNode": "gres/gpu:4"}, "ours": {"required": "n2", "nodes": 2, "tresNode": "gres/gpu:4"},
		"by": {"who": %q, "restarts": %d}}`, asked, who, restarts)
	if err := s.journal.SetOrigin(s.Context(), premium, []byte(record)); err != nil {
		s.Fatal(err)
	}
}

// TestUnpinVainly: a change that Slurm refuses is not tried for ever, and the reason is reported.
func TestUnpinVainly(t *testing.T) {
	s := newSite(t)
	s.srv.EditJob(premium, func(j *slurmrest.Job) { j.RequiredNodes = "n2" })
	s.journalPin("", "policy drain", 0)
	s.loop.Journal = acted{s.journal, time.Now().Add(-time.Hour)}
	s.loop.Executor = refusing{s.journal}
	for range 6 {
		s.runTick()
	}
	all, err := s.journal.History(t.Context(), premium, 10)
	if err != nil || len(all) != unpinTries {
		t.Errorf("%v: %d tries", err, len(all))
	}
	said := s.decisions[len(s.decisions)-1].Problems
	if want := "job 2 waits for nodes that it was moved to; taking them back failed 3 times, and is given up: not in this partition"; !slices.Equal(said, []string{want}) {
		t.Errorf("problems %q", said)
	}
	// After a person's resume the tries begin anew.
	a, err := s.journal.Begin(t.Context(), journal.Request{Kind: "resume", Job: premium, Who: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.loop.Executor.Run(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	s.runTick()
	if all, err := s.journal.History(t.Context(), premium, 10); err != nil || all[0].Who != unpinner {
		t.Errorf("history after another action: %v, %+v, want a new try", err, all[0])
	}
}

// refusing carries out no action, and says why.
type refusing struct{ *journal.Journal }

func (r refusing) Run(ctx context.Context, a journal.Action) (journal.Action, error) {
	a.State, a.Problem = journal.Undone, "not in this partition"
	return a, r.Save(ctx, &a, a.Problem)
}

// acted is a journal in which something was done to the premium job at some time.
type acted struct {
	*journal.Journal
	at time.Time
}

func (a acted) Tried(context.Context) (map[int64]time.Time, error) {
	return map[int64]time.Time{premium: a.at}, nil
}
