// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/ends"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/overlay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm/slurmtest"
)

// TestKitsAtRestart: a daemon that starts removes the kits that no job of the node uses. The kit of a job stays although the
// job's capsule could not be taken over, or the job's record not be read; and a daemon that is told to stop meanwhile removes
// nothing.
func TestKitsAtRestart(t *testing.T) {
	kits := map[string]string{"used": strings.Repeat("a", 32), "unused": strings.Repeat("b", 32)}
	ended, end := context.WithCancel(t.Context())
	end()
	for name, given := range map[string]struct {
		ctx     context.Context
		damaged bool
		err     error
		stay    []string
	}{
		"the capsule cannot be taken over": {t.Context(), false, nil, []string{"used"}},
		"the record cannot be read":        {t.Context(), true, nil, []string{"used", "unused"}},
		"told to stop":                     {ended, false, context.Canceled, []string{"used", "unused"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newLab(t).bootNode("n1", filepath.Join(t.TempDir(), "stage"), nil)
			for _, hash := range kits {
				noError(t, os.MkdirAll(filepath.Join(c.kits.Local, hash), 0o755))
			}
			noError(t, c.records.Save(&records.Record{Job: 7, Kit: kits["used"], Nodes: []string{"n1"}, Addresses: make([]netip.Addr, 1)}))
			noError(t, records.WriteJSON(c.folders().notePath(7, 0), capsuleNote{Job: 7}))
			dir := c.folders().capsuleDir(7, 0)
			noError(t, os.MkdirAll(dir, 0o755))
			noError(t, os.WriteFile(filepath.Join(dir, "capsule.json"), []byte("damaged"), 0o600))
			if given.damaged {
				noError(t, os.WriteFile(c.records.Path(7), []byte("damaged"), 0o600))
			}
			notes, err := c.restarts.adoptCapsules(given.ctx)
			if !errors.Is(err, given.err) {
				t.Fatalf("%v, want %v", err, given.err)
			}
			if err == nil {
				noError(t, c.restarts.removeUnusedKits(notes))
			}
			stay := map[string]bool{}
			for _, kit := range given.stay {
				stay[kit] = true
			}
			for kit, hash := range kits {
				if _, err := os.Stat(filepath.Join(c.kits.Local, hash)); (err == nil) != stay[kit] {
					t.Errorf("the %s kit: %v, want it to stay: %v", kit, err, stay[kit])
				}
			}
		})
	}
}

// TestUnknownJobAtRestart: a daemon that starts while slurmctld is without its state, and so knows no job, lets a job run on that
// Slurm knows again within ends.UnknownGrace, and ends a job that Slurm has not known for so long.
func TestUnknownJobAtRestart(t *testing.T) {
	for name, knownAgain := range map[string]bool{"known again": true, "never known again": false} {
		t.Run(name, func(t *testing.T) {
			q := slurmtest.NewQueue(t)
			synctest.Test(t, func(t *testing.T) {
				c := (&Conductor{Config: Config{Node: "n1"}, Deps: Deps{Slurm: q.Slurm(), Overlay: &overlay.Overlay{}, Log: slog.New(slog.DiscardHandler)}, daemonCtx: t.Context()}).wireParts()
				c.records = records.Folder{Dir: t.TempDir()}
				c.timeline = records.NewTimeline(c.records, c.Node)
				j := c.jobFor(7)
				where := records.Placement{FirstRun: []string{"n1"}, ThisRun: []string{"n1"}}
				j.run = runs.NewRunAt(runs.Snapshot{Record: &records.Record{Job: 7}, State: runs.Running, Placement: where})
				c.restarts.recoverJob(t.Context(), j)
				time.Sleep(ends.UnknownGrace / 2)
				if c.jobs.findJob(7) != j {
					t.Fatal("the job has ended at once")
				}
				if knownAgain {
					q.Set(t, map[uint32]string{7: "RUNNING"})
				}
				time.Sleep(ends.UnknownGrace)
				if got := c.jobs.findJob(7) == j; got != knownAgain {
					t.Errorf("the job is here: %v, want %v", got, knownAgain)
				}
				c.background.Wait()
			})
		})
	}
}
