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
		if err := life(context.Background(), os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// life does what the journal has unfinished, and kills itself, as kill -9 does, at a point:
// life DATABASE ADDRESS FOLDER POINT.
func life(ctx context.Context, args []string) error {
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

// live runs a life in a process of its own until it has ended, or killed itself.
func (w *world) live(t *testing.T, point int) (killed bool) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", w.life(point)...)
	cmd.Env = append(os.Environ(), "ACTION_LIFE=1")
	out, err := cmd.CombinedOutput()
	if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() && s.Signal() == syscall.SIGKILL {
		return true
	}
	if err != nil {
		t.Fatalf("point %d: %v\n%s", point, err, out)
	}
	return false
}

func (w *world) life(point int) []string {
	return []string{w.db, w.srv.Config().Address, w.dir, strconv.Itoa(point)}
}

// goOn is the life of whoever comes after one that was killed. It is not killed, and needs no process.
func (w *world) goOn(t *testing.T) {
	t.Helper()
	// The killed process had the lease; the tests of journal wait for the lease's end.
	db, err := sql.Open("sqlite3", w.db)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("DELETE FROM lease"); err != nil {
		t.Fatal(err)
	}
	if err := life(t.Context(), w.life(0)); err != nil {
		t.Fatal(err)
	}
}

// TestKilledEverywhere kills the process at every point of every kind of action, before and
// after each thing that it writes or does, and lets another go on from the journal: the
// action finishes, and nothing was done twice.
func TestKilledEverywhere(t *testing.T) {
	for _, c := range journeys {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for point := 1; ; point++ {
				w := c.world(t)
				ctx, stop := context.WithCancel(t.Context())
				passes := make(chan struct{})
				go func() {
					defer close(passes)
					w.pass(ctx)
				}()
				j := w.journal(t)
				a := w.begin(t, j, c.kind, c.args)
				if err := j.Close(); err != nil {
					t.Fatal(err)
				}
				killed := w.live(t, point)
				if killed {
					w.goOn(t)
				}
				stop()
				<-passes
				w.ended(t, a.ID, journal.Done)
				c.check(t, w)
				if t.Failed() {
					t.Fatalf("killed at point %d", point)
				}
				if !killed {
					t.Logf("%d points", point-1)
					return
				}
			}
		})
	}
}

// pass is the cluster that goes on beside the processes.
func (w *world) pass(ctx context.Context) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		w.tick()
	}
}

// ended checks how the journal says that an action ended.
func (w *world) ended(t *testing.T, id int64, want journal.State) journal.Action {
	t.Helper()
	j, err := journal.Open(t.Context(), w.db, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	a, err := j.Action(t.Context(), id)
	if err != nil || a.State != want {
		lines, _ := j.Lines(t.Context(), id)
		t.Fatalf("%v: %s (%s), want %s\n%+v", err, a.State, a.Problem, want, lines)
	}
	return a
}

// names returns the points of an action that pass undisturbed.
func (c journey) names(t *testing.T) []string {
	t.Helper()
	w := c.world(t)
	j := w.journal(t)
	var all []string
	r := w.runner(t, j, func(point string) error {
		all = append(all, point)
		return nil
	})
	if a, err := r.Run(t.Context(), w.begin(t, j, c.kind, c.args)); err != nil || a.State != journal.Done {
		t.Fatalf("%v %+v", err, a)
	}
	return all
}

// effects are the points at which something is asked of Slurm or of proxyd.
func effects(points []string) []int {
	var all []int
	for i, p := range points {
		if !strings.Contains(p, "save") && !strings.Contains(p, "origin") {
			all = append(all, i)
		}
	}
	return all
}

// TestAnswersLost: each request is refused because nobody answers, or is carried out and
// its answer is lost. Once: the action finishes, nothing is done twice.
func TestAnswersLost(t *testing.T) {
	for _, c := range journeys {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			points := c.names(t)
			for _, i := range effects(points) {
				w := c.world(t)
				j := w.journal(t)
				passed := -1
				r := w.runner(t, j, func(point string) error {
					if passed++; passed != i {
						return nil
					}
					return lost(point)
				})
				a, err := r.Run(t.Context(), w.begin(t, j, c.kind, c.args))
				if err != nil || a.State != journal.Done {
					t.Fatalf("%s: %v: %s %s", points[i], err, a.State, a.Problem)
				}
				c.check(t, w)
				if t.Failed() {
					t.Fatalf("lost: %s", points[i])
				}
			}
		})
	}
}

// lost is what the client says of a request that got no answer.
func lost(point string) error {
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

// TestRefusedLater: each request is refused for good, once, or the daemon does not answer
// for long. Either the action finishes all the same, or the job goes on as it was; it is
// never left held.
func TestRefusedLater(t *testing.T) {
	for _, c := range journeys {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			points := c.names(t)
			for _, i := range effects(points) {
				if strings.HasPrefix(points[i], "after") {
					continue
				}
				t.Run(fmt.Sprintf("%d %s", i, points[i]), func(t *testing.T) { c.refused(t, i) })
			}
		})
	}
}

func (c journey) refused(t *testing.T, at int) {
	for name, long := range map[string]bool{"refused": false, "away for long": true} {
		t.Run(name, func(t *testing.T) {
			w := c.world(t)
			before := w.job()
			j := w.journal(t)
			passed := -1
			var r *Runner
			var since time.Time
			r = w.runner(t, j, func(point string) error {
				passed++
				request := !strings.Contains(point, "save") && !strings.Contains(point, "origin") && strings.HasPrefix(point, "before")
				switch {
				case passed == at:
					since = r.Now()
					if long {
						return lost(point)
					}
					return fmt.Errorf("ordered: %w", slurmrest.ErrAccessDenied)
				case passed > at && long && request && r.Now().Sub(since) < away:
					return lost(point)
				}
				return nil
			})
			a, err := r.Run(t.Context(), w.begin(t, j, c.kind, c.args))
			if err != nil || !a.State.Ended() || a.State == journal.Stuck {
				t.Fatalf("%v: %s %s", err, a.State, a.Problem)
			}
			w.settle()
			now := w.job()
			if a.State == journal.Done {
				return // what was refused was a comment, or the request was not needed any more
			}
			if a.State != journal.Undone {
				t.Fatalf("%s: %s", a.State, a.Problem)
			}
			if now.Held != before.Held || now.Restarts > 1 || now.ExcludedNodes != before.ExcludedNodes || now.RequiredNodes != before.RequiredNodes && now.State.Base != slurmrest.Running {
				t.Errorf("%s: not as it was: %+v", a.Problem, now)
			}
			if !strings.HasPrefix(now.Comment, userComment+"; preemptd: not "+kinds[c.kind].past) {
				t.Errorf("comment %q", now.Comment)
			}
		})
	}
}
