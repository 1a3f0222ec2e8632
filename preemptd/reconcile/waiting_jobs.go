// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"strings"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/plan"
)

// Wait is a job that waits, and why no action is begun for the job.
type Wait struct {
	Job  sdk.JobID
	Tier sdk.Tier
	Why  string
}

// loggedWait is the reason of a wait, and whether the log has it.
type loggedWait struct {
	why      string
	reported bool
}

// maxExplained is for how many jobs the log says why they wait.
const maxExplained = 16

// explainWaiting says, for the jobs that have a promise and wait for room, why no action is begun for them, premium
// jobs first.
func explainWaiting(settings Settings, s *sdk.Snapshot, d *Decision) []Wait {
	var all []Wait
	for _, tier := range []sdk.Tier{sdk.Premium, sdk.Standard} {
		for i := range s.Jobs {
			j := &s.Jobs[i]
			if j.State != sdk.Waiting || j.Tier != tier || j.Action != "" || len(all) == maxExplained {
				continue
			}
			if why := whyIdle(settings, s, d, j); why != "" {
				all = append(all, Wait{j.ID, j.Tier, why})
			}
		}
	}
	return all
}

// whyIdle says why no action is begun for a job; empty: an action is begun.
func whyIdle(settings Settings, s *sdk.Snapshot, d *Decision, j *sdk.Job) string {
	var parts []string
	for _, c := range d.Accepted {
		if c.Intent.Job != j.ID && c.Intent.For != j.ID {
			continue
		}
		if c.Verdict == Begun {
			return ""
		}
		parts = append(parts, c.Intent.String()+": "+c.Outcome)
	}
	for i := range d.Rejected {
		if r := &d.Rejected[i]; r.Intent.Job == j.ID || r.Intent.For == j.ID {
			parts = append(parts, r.Intent.String()+" is against the rule "+string(r.Invariant))
		}
	}
	why := strings.Join(append(parts, plan.Why(s, j)), "; ")
	if len(settings.Policies) == 0 {
		why += " (no policy is configured)"
	}
	return why
}

// logWaiting logs why jobs wait: once for each reason, and only when the reason holds at two ticks in a row. Most new
// jobs wait only for Slurm's next look.
func (l *Loop) logWaiting(waiting []Wait) {
	now := make(map[sdk.JobID]*loggedWait, len(waiting))
	for _, w := range waiting {
		was := l.loggedWaits[w.Job]
		switch {
		case was == nil || was.why != w.Why:
			was = &loggedWait{why: w.Why}
		case !was.reported:
			was.reported = true
			l.Log.Info("waits", "job", int64(w.Job), "tier", w.Tier.String(), "why", w.Why)
		}
		now[w.Job] = was
	}
	l.loggedWaits = now
}
