//go:build harm

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package harm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// runScontrol has root run scontrol on a job. Slurm may refuse a request that makes no sense at the moment; a person
// would see the error.
func runScontrol(verb string, args ...string) func(context.Context, *world, *counter) error {
	return func(ctx context.Context, w *world, c *counter) error {
		id := fmt.Sprint(c.id)
		if verb == "update" {
			id = "JobId=" + id
		}
		err := w.Scontrol(ctx, append([]string{verb, id}, args...)...)
		if err != nil && strings.Contains(err.Error(), "slurm_load") {
			return err
		}
		return nil
	}
}

// people are interferences in the middle of an action: from then on the person's request counts.
var people = []harm{
	{name: "scancel", only: withLeases, ends: true,
		hit: func(ctx context.Context, w *world, c *counter) error {
			_, err := w.Exec(ctx, "ctl", "alice", "scancel", fmt.Sprint(c.id))
			return err
		},
		kept: func(s situation, a *act) error {
			if s.state != "CANCELLED" {
				return fmt.Errorf("the job was cancelled, and is %s", s)
			}
			return nil
		}},
	{name: "hold", only: []string{"migrate"}, hit: runScontrol("hold"), kept: func(s situation, a *act) error { return nil }},
	{name: "release", only: []string{"migrate"}, hit: runScontrol("release"),
		kept: func(s situation, a *act) error {
			if s.held {
				return fmt.Errorf("the job was released, and is %s", s)
			}
			return nil
		}},
	{name: "requeue", only: []string{"migrate"}, hit: runScontrol("requeue"),
		kept: func(s situation, a *act) error {
			if s.restarts == 0 {
				return fmt.Errorf("the job was requeued, and is %s", s)
			}
			return nil
		}},
	{name: "nodes", only: []string{"migrate"}, hit: runScontrol("update", "ExcNodeList=n3"),
		kept: func(s situation, a *act) error {
			if s.excluded != "n3" && s.excluded != "n[1,3]" && a.State == "dropped" {
				return fmt.Errorf("the job was to avoid n3, and avoids %q: %s", s.excluded, a)
			}
			return nil
		}},
	{name: "comment", only: []string{"migrate"}, hit: runScontrol("update", "Comment=urgent"),
		kept: func(s situation, a *act) error {
			if a.State != "done" || !strings.HasPrefix(s.comment, "urgent") {
				return fmt.Errorf("its comment was to be urgent, and is %q: %s", s.comment, a)
			}
			return nil
		}},
}

// interfereAtMoment plays a single moment: the action ends, the person's change stays, and the job's result is right,
// unless the job was cancelled.
func (w *world) interfereAtMoment(ctx context.Context, t *testing.T, m harmedStep) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	c, _, err := w.prepareJob(ctx, m.journey)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.removeLeftovers(context.WithoutCancel(ctx), c)) }()
	a, err := w.playMoment(ctx, c, m)
	if err != nil {
		return err
	}
	if m.harm.ends {
		err = waitFor(ctx, 2*time.Minute, func() (bool, string) {
			now := c.readSituation(ctx)
			return now.hasEnded(), now.String()
		})
	}
	now := c.readSituation(ctx)
	t.Logf("%s %s: job %d is %s", a.State, a.Problem, c.id, now)
	switch {
	case err != nil:
		return err
	case a.State != "done" && a.State != "dropped":
		return fmt.Errorf("%s", a)
	}
	if err := m.harm.kept(now, a); err != nil || m.harm.ends {
		return err
	}
	if now.held && m.harm.name != "hold" {
		return fmt.Errorf("the job is left held: %s\n%s", now, a)
	}
	if now.held { // by the person
		if err := w.Scontrol(ctx, "release", fmt.Sprint(c.id)); err != nil {
			return err
		}
	}
	return c.finishAndCheck(ctx)
}
