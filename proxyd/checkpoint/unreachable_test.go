// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/decisions"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/steps"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
)

// awayUntil is a NodeCaller. Its node's daemon is back at some time.
type awayUntil struct {
	back  time.Time
	away  error // until then; nil: ErrAway
	asked int
	fails error // the daemon's answer then
}

func (r *awayUntil) Call(context.Context, string, *rpc.CallRequest) (*rpc.CallReply, error) {
	r.asked++
	if time.Now().Before(r.back) {
		return nil, fmt.Errorf("%w: connection refused", cmp.Or(r.away, ErrAway))
	}
	return &rpc.CallReply{}, r.fails
}

// TestCallNodeRetrying: a call waits for a daemon that is restarting. During a restore the call waits for longer
// than Slurm waits before killing a job. All other errors are returned at once.
func TestCallNodeRetrying(t *testing.T) {
	wrong := errors.New("wrong")
	for _, tt := range []struct {
		name   string
		away   time.Duration
		within time.Duration
		fails  error
		want   error
	}{
		{"there", 0, unreachableTimeout, nil, nil},
		{"starting", 5 * time.Second, unreachableTimeout, nil, nil},
		{"long, for a capture", 30 * time.Second, unreachableTimeout, nil, ErrAway},
		{"long, for a restore", 30 * time.Second, restoreCallTimeout, nil, nil},
		{"for good", time.Hour, restoreCallTimeout, nil, ErrAway},
		{"slurmctld, which knows the address, is starting", 5 * time.Second, restoreCallTimeout, nil, nil},
		{"refuses", time.Second, restoreCallTimeout, wrong, wrong},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				r := &awayUntil{back: began.Add(tt.away), fails: tt.fails}
				if strings.Contains(tt.name, "slurmctld") {
					r.away = slurm.ErrSilent
				}
				c := conductorOn(t, "n1", t.TempDir())
				c.Remote = r
				_, err := callNodeRetrying(t.Context(), c, tt.within, "n2", 7, calls.MakeCapsules, calls.MakeCapsulesArgs{})
				if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
					t.Errorf("callNodeRetrying: %v, want %v", err, tt.want)
				}
				if took := time.Since(began); took > min(tt.away, tt.within)+2*retryInterval || tt.away == 0 && r.asked != 1 {
					t.Errorf("took %s with %d calls", took, r.asked)
				}
			})
		})
	}
}

// TestLostNode: a script that ends while the daemon of another node is restarting has lost no node, and has ended by itself. A
// node that stays away is lost, and no time is spent on nodes that answer.
func TestLostNode(t *testing.T) {
	for name, tt := range map[string]struct {
		away time.Duration
		lost bool
		took time.Duration // at most
	}{
		"all answer":            {0, false, 0},
		"a daemon is restarted": {5 * time.Second, false, 5*time.Second + retryInterval},
		"a node is gone":        {time.Hour, true, unreachableTimeout + 2*retryInterval},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				c := conductorOn(t, "n1", t.TempDir())
				c.Remote = &awayUntil{back: began.Add(tt.away)}
				where := records.Placement{FirstRun: []string{"n1", "n2"}, ThisRun: []string{"n1", "n2"}}
				j := (&job{c: c, id: 7, log: slog.New(slog.DiscardHandler), run: runs.NewRunAt(runs.Snapshot{Placement: where})}).linkPartsToJob()
				if lost := j.ending.hasLostNode(t.Context()); lost != tt.lost {
					t.Errorf("hasLostNode = %v", lost)
				}
				if took := time.Since(began); took > tt.took {
					t.Errorf("hasLostNode took %s", took)
				}
			})
		})
	}
}

// TestRepeatsAttempt: a node that had no power for a moment resets the connection to its daemon, which costs no
// checkpoint; a node that stays away ends a checkpoint that no requeue waits for.
func TestRepeatsAttempt(t *testing.T) {
	away, other := fmt.Errorf("node n2: %w: connection reset by peer", ErrAway), errors.New("other")
	for name, c := range map[string]struct {
		after       decisions.Departure
		reconnected bool
		err         error
		want        bool
	}{
		"asked for":                   {decisions.StaysOnNodes, false, away, true},
		"asked for, the second time":  {decisions.StaysOnNodes, true, away, false},
		"for a requeue":               {decisions.LeavesForRequeue, true, away, true},
		"the script has ended":        {decisions.LeavesForRequeue, false, errors.Join(away, errScriptEnded), false},
		"tasks of a step are missing": {decisions.StaysOnNodes, true, steps.ErrTasksMissing, true},
		"a lasting error, asked for":  {decisions.StaysOnNodes, false, other, false},
		"a lasting error":             {decisions.LeavesForRequeue, false, other, false},
	} {
		a := &attempt{outcome: decisions.NewOutcome(decisions.Request{After: c.after}), reconnected: c.reconnected}
		if got := a.maySucceedSoon(c.err); got != c.want {
			t.Errorf("%s: maySucceedSoon = %v", name, got)
		}
	}
}

// TestUndoErrorOnce: where a node's daemon is away, the undoing fails there too, and the error does not say so again.
// Another error of the undoing is told.
func TestUndoErrorOnce(t *testing.T) {
	away, other := fmt.Errorf("node n2: %w: connection refused", ErrAway), errors.New("other")
	for name, c := range map[string]struct {
		err, undoing error
		want         string
	}{
		"away":             {away, fmt.Errorf("undo prepare: %w", away), "node n2: proxyd does not answer: connection refused"},
		"nothing to tell":  {away, nil, "node n2: proxyd does not answer: connection refused"},
		"away in the undo": {other, away, "other\nnode n2: proxyd does not answer: connection refused"},
		"another problem":  {away, other, "node n2: proxyd does not answer: connection refused\nother"},
	} {
		if got := joinUndoError(c.err, c.undoing, slog.New(slog.DiscardHandler)); got.Error() != c.want || !errors.Is(got, c.err) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestAddressLater: a restarting slurmctld does not end a restore.
func TestAddressLater(t *testing.T) {
	dir := t.TempDir()
	scontrol := filepath.Join(dir, "scontrol")
	if err := os.WriteFile(scontrol, []byte(`#!/bin/sh
cd `+dir+`; echo x >>calls
[ $(wc -l <calls) -gt 2 ] || { echo "Unable to contact slurm controller (connect failure)" >&2; exit 1; }
echo NodeName=n2 NodeAddr=10.0.0.2
`), 0o755); err != nil {
		t.Fatal(err)
	}
	c := conductorOn(t, "n1", dir)
	c.Slurm = slurm.New(scontrol)
	if _, err := c.nodeAddress(t.Context(), "n2"); !clusterMayRecover(err) {
		t.Fatalf("the error does not count as transient: %v", err)
	}
	var at string
	err := retryWhile(t.Context(), time.Minute, clusterMayRecover, func() error {
		a, err := c.nodeAddress(t.Context(), "n2")
		at = a.String()
		return err
	})
	if err != nil || at != "10.0.0.2" {
		t.Errorf("address %s, error %v; want 10.0.0.2", at, err)
	}
}
