// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3"

	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// TestMain is also the main of the process that the tests kill.
func TestMain(m *testing.M) {
	if os.Getenv("ACTION_LIFE") != "" {
		if err := liveUntilKilled(context.Background(), os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// liveUntilKilled runs the unfinished actions of the journal, and kills itself, as kill -9 does, at a point: life
// DATABASE ADDRESS FOLDER POINT.
func liveUntilKilled(ctx context.Context, args []string) error {
	point, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	j, err := journal.Open(ctx, args[0], "test")
	if err != nil {
		return err
	}
	if err := j.Await(ctx, nil); err != nil {
		return err
	}
	c, err := slurmrest.New(slurmrest.Config{Address: args[1]})
	if err != nil {
		return err
	}
	defer c.Close()
	passed := 0
	p := points{c, shelf{args[2]}, j, func(string) error {
		if passed++; passed == point {
			return errors.Join(syscall.Kill(os.Getpid(), syscall.SIGKILL), errors.New("alive"))
		}
		return nil
	}}
	r := &Runner{Slurm: p, Proxyd: p, Journal: p, Poll: 2 * time.Millisecond}
	open, err := j.Unfinished(ctx)
	if err != nil {
		return err
	}
	for _, a := range open {
		if _, err := r.Run(ctx, a); err != nil {
			return err
		}
	}
	return j.Close()
}

// runLife runs a life in a process of its own until the end, or until the life has killed itself.
func (w *world) runLife(t *testing.T, point int) (killed bool) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", w.lifeArguments(point)...)
	cmd.Env = append(os.Environ(), "ACTION_LIFE=1")
	out, err := cmd.CombinedOutput()
	if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() && s.Signal() == syscall.SIGKILL {
		return true
	}
	if err != nil {
		t.Fatalf("process to be killed at point %d: %v\n%s", point, err, out)
	}
	return false
}

func (w *world) lifeArguments(point int) []string {
	return []string{w.db, w.srv.Config().Address, w.dir, strconv.Itoa(point)}
}

// goOn carries the actions on as the next process would after a kill, but within this process, and to the end.
func (w *world) goOn(t *testing.T) {
	t.Helper()
	// The killed process had the mandate; the tests of journal wait for the mandate's end.
	db, err := sql.Open("sqlite3", w.db)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("DELETE FROM lease"); err != nil {
		t.Fatal(err)
	}
	if err := liveUntilKilled(t.Context(), w.lifeArguments(0)); err != nil {
		t.Fatal(err)
	}
}

// TestKilledEverywhere kills the process at every point of every kind of action, before and after each write and each
// request of the process, and lets another go on from the journal: the action finishes, and no request was carried
// out twice.
func TestKilledEverywhere(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 7 // each seventh point
	}
	for _, c := range journeys {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for point := 1; ; point += step {
				w := c.newWorld(t)
				ctx, stop := context.WithCancel(t.Context())
				passes := make(chan struct{})
				go func() {
					defer close(passes)
					w.passTime(ctx)
				}()
				j := w.openJournal(t)
				a := w.beginAction(t, j, c.kind, c.args)
				if err := j.Close(); err != nil {
					t.Fatal(err)
				}
				killed := w.runLife(t, point)
				if killed {
					w.goOn(t)
				}
				stop()
				<-passes
				w.checkEnded(t, a.ID, journal.Done)
				c.checkJob(t, w)
				if t.Failed() {
					t.Fatalf("killed at point %d", point)
				}
				if !killed {
					t.Logf("fewer than %d points, of which each one in %d", point, step)
					return
				}
			}
		})
	}
}

// passTime lets the cluster go on beside the processes.
func (w *world) passTime(ctx context.Context) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		w.stepSlurm()
	}
}

// checkEnded checks how the journal says that an action ended.
func (w *world) checkEnded(t *testing.T, id int64, want journal.State) journal.Action {
	t.Helper()
	j, err := journal.Open(t.Context(), w.db, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	a, err := j.Action(t.Context(), id)
	if err != nil || a.State != want {
		lines, _ := j.Lines(t.Context(), id)
		t.Fatalf("in the journal: %v, %s (%s), want %s; lines:\n%+v", err, a.State, a.Problem, want, lines)
	}
	return a
}

// pointNames returns the points of an action that pass undisturbed.
func (c journey) pointNames(t *testing.T) []string {
	t.Helper()
	w := c.newWorld(t)
	j := w.openJournal(t)
	var all []string
	r := w.newRunner(t, j, func(point string) error {
		all = append(all, point)
		return nil
	})
	if a, err := r.Run(t.Context(), w.beginAction(t, j, c.kind, c.args)); err != nil || a.State != journal.Done {
		t.Fatalf("Run without a kill: %v, %+v, want done", err, a)
	}
	return all
}

// isEffect tells whether a point is a request to Slurm or to proxyd. Writes of the journal do not count: their number
// depends on how long the waits are.
func isEffect(point string) bool {
	return !strings.Contains(point, "save") && !strings.Contains(point, "origin")
}

// effectPoints returns the points of a list that are effects.
func effectPoints(points []string) []string {
	return slices.DeleteFunc(points, func(p string) bool { return !isEffect(p) })
}

// TestAnswersLost: each request is refused because no server answers, or is carried out and its answer is lost. Once:
// the action finishes, no request is carried out twice.
func TestAnswersLost(t *testing.T) {
	for _, c := range journeys {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			points := effectPoints(c.pointNames(t))
			for i := range points {
				if testing.Short() && i%3 != 0 {
					continue
				}
				w := c.newWorld(t)
				j := w.openJournal(t)
				passed := -1
				r := w.newRunner(t, j, func(point string) error {
					if !isEffect(point) {
						return nil
					}
					if passed++; passed != i {
						return nil
					}
					return lostAnswer(point)
				})
				a, err := r.Run(t.Context(), w.beginAction(t, j, c.kind, c.args))
				if err != nil || a.State != journal.Done {
					t.Fatalf("request %s: %v; the action is %s, problem %q, want done", points[i], err, a.State, a.Problem)
				}
				c.checkJob(t, w)
				if t.Failed() {
					t.Fatalf("the job is not as wanted after the lost answer to %s", points[i])
				}
			}
		})
	}
}

// lostAnswer is the client's error for a request that got no answer.
func lostAnswer(point string) error {
	switch {
	case strings.Contains(point, "checkpoint"):
		return rpc.Errorf(rpc.ErrUnreachable, "proxyd does not answer")
	case strings.HasPrefix(point, "before"):
		return fmt.Errorf("ordered: %w", slurmrest.ErrUnreachable)
	}
	return fmt.Errorf("ordered: %w", slurmrest.ErrUncertain)
}

// away is how long a daemon does not answer: longer than any step may take.
const away = 20 * time.Minute

// TestRefusedLater: each request is refused by Slurm or proxyd, once, or the daemon does not answer for a long time.
// Either the action finishes all the same, or the job goes on unchanged; the job is never left held.
func TestRefusedLater(t *testing.T) {
	for _, c := range journeys {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			points := effectPoints(c.pointNames(t))
			for i := range points {
				if strings.HasPrefix(points[i], "after") || testing.Short() && i%5 != 0 {
					continue
				}
				t.Run(fmt.Sprintf("%d %s", i, points[i]), func(t *testing.T) { c.checkRefusal(t, i) })
			}
		})
	}
}

func (c journey) checkRefusal(t *testing.T, at int) {
	for name, long := range map[string]bool{"refused": false, "away for long": true} {
		t.Run(name, func(t *testing.T) {
			w := c.newWorld(t)
			before := w.currentJob()
			j := w.openJournal(t)
			passed := -1
			var r *Runner
			var since time.Time
			r = w.newRunner(t, j, func(point string) error {
				if !isEffect(point) {
					return nil
				}
				passed++
				request := strings.HasPrefix(point, "before")
				switch {
				case passed == at:
					since = r.Now()
					if long {
						return lostAnswer(point)
					}
					return fmt.Errorf("ordered: %w", slurmrest.ErrAccessDenied)
				case passed > at && long && request && r.Now().Sub(since) < away:
					return lostAnswer(point)
				}
				return nil
			})
			a, err := r.Run(t.Context(), w.beginAction(t, j, c.kind, c.args))
			if err != nil || !a.State.Ended() || a.State == journal.Stuck {
				t.Fatalf("Run: %v; the action is %s, problem %q, want ended", err, a.State, a.Problem)
			}
			w.settleCluster()
			now := w.currentJob()
			if a.State == journal.Done {
				return // the refused request was a comment's, or was not needed any more
			}
			if a.State != journal.Undone {
				t.Fatalf("the action is %s, want undone; problem %q", a.State, a.Problem)
			}
			if now.Held != before.Held || now.Restarts > 1 || now.ExcludedNodes != before.ExcludedNodes || now.RequiredNodes != before.RequiredNodes && now.State.Base != slurmrest.Running {
				t.Errorf("%s: not as it was: %+v", a.Problem, now)
			}
			if !strings.HasPrefix(now.Comment, userComment+"; preemptd: not "+kinds[c.kind].participle) {
				t.Errorf("comment of the undone action = %q", now.Comment)
			}
		})
	}
}
