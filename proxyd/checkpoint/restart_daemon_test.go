// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/ends"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/overlay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm/slurmtest"
)

// TestKitsAtRestart: a daemon that starts removes the kits that no job of the node uses. The kit of a job stays
// although the job's capsule could not be taken over, or the job's record not be read; and a daemon that is told to
// stop meanwhile removes no kit.
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
				t.Fatalf("adoptCapsules: %v, want %v", err, given.err)
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

// TestCgroupsAtRestart: the predecessor of a daemon was killed while it put files back. The daemon removes the cgroups for
// files that are left in the cgroups of jobs, and a job's own cgroup if there is no other below it. Other cgroups stay.
func TestCgroupsAtRestart(t *testing.T) {
	c := newLab(t).bootNode("n1", filepath.Join(t.TempDir(), "stage"), nil)
	c.Cgroups = t.TempDir()
	in := func(name string) string { return filepath.Join(c.Cgroups, "system.slice", "slurmstepd.scope", name) }
	for _, dir := range []string{"job_7/sing-files-0", "job_7/sing-files-12", "job_8/sing-files-0", "job_8/sing-devices-0", "job_8/step_batch/sing-files-0", "job_9/sing-files-0/process"} {
		noError(t, os.MkdirAll(in(dir), 0o755))
	}
	noError(t, records.WriteJSON(c.folders().notePath(7, 0), capsuleNote{Job: 7}))
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := c.Adopt(stopped); !errors.Is(err, context.Canceled) {
		t.Fatalf("Adopt: %v, want that it was stopped", err)
	}
	for dir, stays := range map[string]bool{
		"": true, "job_7": false, "job_8": true, "job_8/sing-files-0": false, "job_8/sing-devices-0": true, "job_8/step_batch/sing-files-0": true,
		"job_9/sing-files-0/process": true,
	} {
		if _, err := os.Stat(in(dir)); (err == nil) != stays {
			t.Errorf("%s: %v, want it to stay: %v", dir, err, stays)
		}
	}
}

// TestUnknownJobAtRestart: a daemon that starts while slurmctld is without its state, and so knows no job, lets a job run on that
// Slurm knows again within ends.UnknownGrace, and ends a job that Slurm has not known for so long.
func TestUnknownJobAtRestart(t *testing.T) {
	for name, knownAgain := range map[string]bool{"known again": true, "never known again": false} {
		t.Run(name, func(t *testing.T) {
			q := slurmtest.NewQueue(t)
			synctest.Test(t, func(t *testing.T) {
				c := (&Conductor{Config: Config{Node: "n1"}, Deps: Deps{Slurm: q.Slurm(), Overlay: &overlay.Overlay{}, Log: slog.New(slog.DiscardHandler)}, daemonCtx: t.Context()}).linkPartsToConductor()
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

// TestAdoptionRepeated: if a capsule cannot be taken over because the shared folder fails for a moment, the daemon tries
// again, for a time that all capsules share. The daemon does not try again for a capsule with a damaged file.
func TestAdoptionRepeated(t *testing.T) {
	for name, tt := range map[string]struct {
		fails error
		tries int           // that fail
		took  time.Duration // at most
		want  error
	}{
		"at once":          {nil, 0, 0, nil},
		"stale for a time": {&fs.PathError{Op: "read", Path: "7.json", Err: syscall.ESTALE}, 5, 5 * retryInterval, nil},
		"full for good":    {fmt.Errorf("open: %w", syscall.ENOSPC), math.MaxInt, adoptPatience + retryInterval, syscall.ENOSPC},
		"damaged":          {errScriptEnded, math.MaxInt, 0, errScriptEnded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, tries := time.Now(), 0
				err := retryWhileFilesFail(t.Context(), adoptPatience, func() error {
					if tries++; tries <= tt.tries {
						return tt.fails
					}
					return nil
				})
				if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) || time.Since(began) > tt.took {
					t.Errorf("%v after %d tries and %s, want %v", err, tries, time.Since(began), tt.want)
				}
			})
		})
	}
}

// TestUnreadableNote: a capsule with a note that cannot be read is not ended if it may run, and is removed if it is gone. Other files
// in the folder of notes are passed over.
func TestUnreadableNote(t *testing.T) {
	c := newLab(t).bootNode("n1", filepath.Join(t.TempDir(), "stage"), nil)
	for _, name := range []string{"7.0.json", "8.1.json", ".new-123", "7.0.json.new"} {
		noError(t, os.WriteFile(filepath.Join(c.folders().notesDir(), name), []byte("damaged"), 0o600))
	}
	mayRun := c.folders().capsuleDir(7, 0)
	noError(t, os.MkdirAll(mayRun, 0o755))
	noError(t, os.WriteFile(filepath.Join(mayRun, "capsule.json"), []byte("damaged"), 0o600)) // 8.1 has no such file: it is gone
	notes, err := c.restarts.adoptCapsules(t.Context())
	if err != nil || len(notes) != 1 || notes[0].Job != 7 || notes[0].Index != 0 {
		t.Errorf("adoptCapsules returns the notes %+v, %v, want that of capsule 7.0", notes, err)
	}
}

// TestAttemptCutShort: an attempt that was in progress when the leader's daemon ended is a failed checkpoint in the job's time line,
// once, unless the checkpoint was committed, the failure is there already, or another node leads.
func TestAttemptCutShort(t *testing.T) {
	for name, test := range map[string]struct {
		leader string
		before []records.Event
		number uint32
		want   []string
	}{
		"in progress":   {"n1", nil, 4, []string{"checkpoint 4 was in progress when proxyd ended on n1"}},
		"committed":     {"n1", nil, 3, nil},
		"failed before": {"n1", []records.Event{{What: records.EventFailed, Text: "checkpoint 4 (by hand): dump: why"}}, 4, []string{"checkpoint 4 (by hand): dump: why"}},
		"another failed": {"n1", []records.Event{{What: records.EventFailed, Text: "checkpoint 44 (by hand): dump: why"}}, 4,
			[]string{"checkpoint 44 (by hand): dump: why", "checkpoint 4 was in progress when proxyd ended on n1"}},
		"another leads": {"n2", nil, 4, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			c := l.bootNode("n1", t.TempDir()+"/s", nil)
			l.commitCheckpoint(c, 3)
			rec := recordOf(7)
			if err := c.records.Save(rec); err != nil {
				t.Fatal(err)
			}
			for _, e := range test.before {
				if err := c.timeline.Write(7, e); err != nil {
					t.Fatal(err)
				}
			}
			j := c.jobFor(7)
			where := records.Placement{FirstRun: []string{test.leader}, ThisRun: []string{test.leader}}
			j.run = runs.NewRunAt(runs.Snapshot{Record: rec, State: runs.Running, Placement: where})
			for range 2 {
				c.restarts.reportCutShort(t.Context(), j, l.checkpointID(test.number))
				c.background.Wait()
			}
			events, err := c.timeline.Read(7)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range events {
				if e.What == records.EventFailed {
					got = append(got, e.Text)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("failed checkpoints in the time line: %q, want %q", got, test.want)
			}
		})
	}
}
