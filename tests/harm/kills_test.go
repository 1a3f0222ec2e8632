//go:build harm

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package harm does harm while preemptd acts on jobs of a real cluster: it kills daemons and
// nodes at each step of each action, has a person interfere at each step, and lets random
// things happen to twenty jobs, of which some train on software GPUs; a job that ends is judged, and
// has another in its place. After each kind of harm, actions come to an end, no step is done twice, no job is left
// held, and the jobs' results are right to the byte. The package needs root
// and a built minicluster; the tests run under the build tag "harm".
package harm

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "tests/harm needs root")
		os.Exit(1)
	}
	if _, err := os.Stat(program); err != nil {
		fmt.Fprintln(os.Stderr, "build minicluster first: make build")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// journey is a request, and the steps of its action.
type journey struct {
	name  string
	user  string
	args  []string // singctl's, but for the job
	waits bool     // for a job that waits
	steps []string
	// without: the steps if the job cannot be lent a GPU just then, and goes on with it by a requeue. nil: there is no such way.
	without []string
	// undone: the action cannot be done, which shows at edit; the steps of undoing follow.
	undone bool
}

// journeys are all requests that people make of preemptd.
var journeys = []journey{
	{name: "preempt", user: "alice", args: []string{"preempt"}, steps: []string{"check", "announce", "checkpoint", "park", "leave", "draft", "edit", "release", "report"}},
	{name: "park", user: "alice", args: []string{"preempt", "--hold"}, steps: []string{"check", "announce", "checkpoint", "park", "leave", "draft", "edit", "report"}},
	{name: "migrate", user: "alice", args: []string{"migrate", "--away", "n1"}, steps: moves},
	{name: "resize", user: "operator", args: []string{"resize", "--nodes", "1"}, steps: slices.Insert(slices.Clone(moves), 2, "lend")},
	{name: "grow", user: "operator", args: []string{"resize", "--gpus", "2"}, steps: inPlace, without: slices.Insert(slices.Clone(moves), 2, "lend")},
	{name: "shrink", user: "operator", args: []string{"resize", "--gpus", "1"}, steps: inPlace, without: slices.Insert(slices.Clone(moves), 2, "lend")},
	{name: "requeue", user: "alice", args: []string{"requeue", "--qos", "basic"}, steps: []string{"check", "announce", "checkpoint", "park", "leave", "draft", "edit", "release", "report"}},
	{name: "resume", user: "alice", args: []string{"resume"}, waits: true, steps: []string{"check", "draft", "edit", "release", "report"}},
	{name: "release", user: "alice", args: []string{"release"}, waits: true, steps: []string{"check", "release", "report"}},
	{name: "hold", user: "alice", args: []string{"hold"}, waits: true, steps: []string{"check", "announce", "hold", "report"}},
	{name: "undone", user: "operator", args: []string{"requeue", "--qos", "nosuch"}, steps: []string{"unedit", "unpark", "unreport"}, undone: true},
}

// inPlace are the steps of a resize by leases.
var inPlace = []string{"check", "announce", "lend", "report", "restore"}

var moves = []string{"check", "announce", "checkpoint", "park", "leave", "draft", "edit", "release", "start", "report", "restore"}

// borrows reports whether the journey is that of a job which other jobs can lend a GPU.
func (j *journey) borrows() bool { return j.name == "grow" || j.name == "shrink" }

// harm is an interference that the test makes when an action stands at a step.
type harm struct {
	name string
	hit  func(context.Context, *world, *counter) error
	// kept checks the state of the job after harm by a person.
	kept func(situation, *act) error
	// only: names of the journeys at each step of which the harm is done. nil: all journeys, and also when the step is
	// done and not in the journal yet.
	only []string
	// ends: the harm ends the job.
	ends bool
}

// withLeases are the journeys that stand for all others, and those by leases.
var withLeases = []string{"migrate", "grow", "shrink"}

// kills are the kills after which the action must be finished or undone.
var kills = []harm{
	{name: "preemptd", hit: func(_ context.Context, w *world, _ *counter) error {
		return w.signalProcess(unix.SIGKILL, "ctl", "preemptd")
	}},
	{name: "slurmrestd", only: withLeases, hit: func(_ context.Context, w *world, _ *counter) error {
		return w.signalProcess(unix.SIGKILL, "ctl", "slurmrestd", "-a", "rest_auth/local")
	}},
	{name: "slurmctld", only: withLeases, hit: func(ctx context.Context, w *world, c *counter) error {
		return errors.Join(w.WaitForStateSave(ctx, fmt.Sprint(c.id)), w.signalProcess(unix.SIGKILL, "ctl", "slurmctld", "-D", "-i"))
	}},
	{name: "proxyd", only: withLeases, hit: func(ctx context.Context, w *world, c *counter) error {
		return w.signalProcess(unix.SIGKILL, c.leaderNode(ctx), "proxyd", "daemon")
	}},
	{name: "node", only: withLeases, hit: func(ctx context.Context, w *world, c *counter) error {
		_, err := w.Run(ctx, "fail", c.leaderNode(ctx))
		return err
	}},
}

// leaderNode is the node that leads the job, or would.
func (c *counter) leaderNode(ctx context.Context) string {
	if s := c.readSituation(ctx); slices.Contains(c.w.nodes, s.nodes) {
		return s.nodes
	}
	return "n1"
}

// harmedStep is a step of an action, and the harm that is done there.
type harmedStep struct {
	journey journey
	step    string // with ! : the step is done, but not in the journal yet
	harm    harm
}

func (m harmedStep) name() string { return m.journey.name + "/" + m.step + "/" + m.harm.name }

// listMoments returns all moments, or the picked moments.
func listMoments(harms []harm) []harmedStep {
	var all []harmedStep
	for _, j := range journeys {
		for _, h := range harms {
			if h.only != nil && !slices.Contains(h.only, j.name) {
				continue
			}
			for _, s := range j.steps {
				all = append(all, harmedStep{j, s, h})
				if h.only == nil {
					all = append(all, harmedStep{j, s + "!", h})
				}
			}
		}
	}
	rng := rand.New(rand.NewPCG(*seed, 1))
	if *some > 0 {
		rng.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
		all = all[:min(*some, len(all))]
	}
	return all
}

// TestHarm does harm to actions, and checks that the jobs' results are right in the end: in killed, a daemon or node is
// killed at each step of each action; in interfered, a person interferes at each step of a migration, and cancels a job at
// each step of a resize by leases; in random, random events come at random times.
func TestHarm(t *testing.T) {
	t.Logf("seed %d", *seed)
	w := newWorld(t, "harm-test")
	t.Run("killed", func(t *testing.T) {
		w.playMoments(t, listMoments(kills), w.killAtMoment)
	})
	t.Run("interfered", func(t *testing.T) { w.playMoments(t, listMoments(people), w.interfereAtMoment) })
	t.Run("random", w.runStorm)
}

// playMoments plays moments in turn.
func (w *world) playMoments(t *testing.T, all []harmedStep, play func(context.Context, *testing.T, harmedStep) error) {
	for _, m := range all {
		t.Run(m.name(), func(t *testing.T) {
			if err := play(t.Context(), t, m); err != nil {
				t.Error(err)
			}
		})
	}
}

// killAtMoment plays a single moment: the action finishes or is undone, no step is done twice, and the job's result is
// right.
func (w *world) killAtMoment(ctx context.Context, t *testing.T, m harmedStep) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	c, before, err := w.prepareJob(ctx, m.journey)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.removeLeftovers(context.WithoutCancel(ctx), c)) }()
	if m.harm.name == "node" { // must cost a job no more than the time since its last checkpoint
		if _, err := w.Exec(ctx, "ctl", "alice", "singctl", "-q", "checkpoint", fmt.Sprint(c.id)); err != nil {
			return err
		}
	}
	a, err := w.playMoment(ctx, c, m)
	if err != nil {
		return err
	}
	now := c.readSituation(ctx)
	t.Logf("%s %s: job %d is %s", a.State, a.Problem, c.id, now)
	if a.State != "done" && a.State != "undone" && a.State != "dropped" {
		return fmt.Errorf("%s", a)
	}
	if steps := a.listSteps(); a.State == "done" && !m.journey.undone && !slices.Equal(steps, m.journey.steps) && !m.isWithoutLease(steps) {
		return fmt.Errorf("its steps are not those of the table: %s", a)
	}
	if m.harm.name == "preemptd" && (a.State == "done") == m.journey.undone {
		return fmt.Errorf("nothing but preemptd was killed, and: %s", a)
	}
	if most := before.restarts + 2; now.restarts > most || m.harm.name == "preemptd" && now.restarts >= most {
		return fmt.Errorf("the job was requeued %d times: %s", now.restarts-before.restarts, a)
	}
	if inPlace := m.journey.without != nil && slices.Equal(a.listSteps(), m.journey.steps); inPlace && m.harm.name != "node" && now.restarts != before.restarts {
		return fmt.Errorf("the job was requeued, and had been lent a GPU where it runs: %s", a)
	}
	var made map[string]int
	if err := waitFor(ctx, time.Minute, func() (bool, string) { // a proxyd that was killed may not answer yet
		made, err = c.countCheckpoints(ctx)
		return err == nil, fmt.Sprint(err)
	}); err != nil || slices.Max(append(valuesOf(made), 0)) > 1 {
		return fmt.Errorf("checkpoints by action: %v %w", made, err)
	}
	return errors.Join(w.letGo(ctx, c, m.journey, a, now), c.finishAndCheck(ctx))
}

// isWithoutLease reports whether an action that had these steps could not have a GPU lent, because of the harm.
func (m harmedStep) isWithoutLease(steps []string) bool {
	return m.harm.name != "preemptd" && m.journey.without != nil && slices.Equal(steps, m.journey.without)
}

func valuesOf(m map[string]int) []int {
	var all []int
	for _, n := range m {
		all = append(all, n)
	}
	return all
}

// letGo releases a job that the journey leaves held, and returns an error for a job that should not be held.
func (w *world) letGo(ctx context.Context, c *counter, j journey, a *act, now situation) error {
	mine := a.State == "done" && (j.name == "park" || j.name == "hold") || a.State != "done" && j.name != "hold" && j.waits
	if now.held && !mine {
		return fmt.Errorf("the job is left held: %s\n%s", now, a)
	}
	if !now.held {
		return nil
	}
	id, err := w.beginAction(ctx, "root", "resume", fmt.Sprint(c.id))
	if err != nil {
		return err
	}
	if a, err = w.waitForAction(ctx, id); err == nil && a.State != "done" {
		err = fmt.Errorf("%s", a)
	}
	return err
}

// prepareJob has a job where the journey begins.
func (w *world) prepareJob(ctx context.Context, j journey) (*counter, situation, error) {
	options := []string{"-w", "n1"}
	if j.name == "resize" {
		options = []string{"-N2", "-n2"}
	}
	if j.name == "hold" {
		options = []string{"--begin=now+1hour"}
	}
	if j.name == "migrate" {
		options = nil
	}
	script := inBash
	if j.borrows() {
		script, options = writeTraining(longestTraining), mayGrow
	}
	c, err := w.submitCounter(ctx, "job", script, options...)
	if err != nil {
		return c, situation{}, err
	}
	if j.borrows() {
		c.losses = w.losses
	}
	if j.name != "hold" {
		err = c.waitForCounting(ctx)
	}
	if err == nil && j.name == "shrink" {
		err = w.growInPlace(ctx, c)
	}
	if err == nil && j.waits && j.name != "hold" {
		var id int64
		if id, err = w.beginAction(ctx, "alice", "preempt", "--hold", fmt.Sprint(c.id)); err == nil {
			_, err = w.waitForAction(ctx, id)
		}
	}
	return c, c.readSituation(ctx), err
}

// growInPlace has another job lend the job a GPU.
func (w *world) growInPlace(ctx context.Context, c *counter) error {
	id, err := w.beginAction(ctx, "operator", "resize", "--gpus", "2", fmt.Sprint(c.id))
	if err != nil {
		return err
	}
	a, err := w.waitForAction(ctx, id)
	if err == nil && (a.State != "done" || !slices.Equal(a.listSteps(), inPlace)) {
		err = fmt.Errorf("no GPU was lent in place: %s", a)
	}
	return err
}

// paused matches the line that preemptd logs at a pause.
var paused = regexp.MustCompile(`msg=paused .*\baction=(\d+)`)

// playMoment begins the action, does the harm when the action stands at the moment, and returns the ended
// action.
func (w *world) playMoment(ctx context.Context, c *counter, m harmedStep) (*act, error) {
	if err := w.pauseController(ctx, m.step); err != nil {
		return nil, err
	}
	from := w.logOffset()
	args := slices.Clone(m.journey.args)
	if i := slices.Index(args, "--away"); i >= 0 { // a move away from where a job is not is refused
		args[i+1] = c.readSituation(ctx).nodes
	}
	asked := make(chan error, 1)
	go func() { // the call may stay without an answer: the pause at an action's first step may come before preemptd's answer
		var a act
		asked <- w.askSingctl(ctx, &a, m.journey.user, append(args, fmt.Sprint(c.id), "--no-wait")...)
	}()
	defer func() { <-asked }()
	var id int64
	err := waitFor(ctx, 3*time.Minute, func() (bool, string) {
		log := w.controllerLog(from)
		if m := paused.FindStringSubmatch(log); m != nil {
			id, _ = strconv.ParseInt(m[1], 10, 64)
		}
		return id != 0, log
	})
	if err != nil {
		return nil, err
	}
	if err := w.pauseController(ctx, ""); err != nil {
		return nil, err
	}
	if err := m.harm.hit(ctx, w, c); err != nil {
		return nil, err
	}
	if m.harm.name == "preemptd" {
		return w.waitForAction(ctx, id)
	}
	if err := w.signalProcess(unix.SIGCONT, "ctl", "preemptd"); err != nil {
		return nil, err
	}
	if m.harm.kept == nil { // something was broken
		w.waitUntilFelt(ctx, id)
		if err := w.healAll(ctx); err != nil {
			return nil, err
		}
	}
	return w.waitForAction(ctx, id)
}

// waitUntilFelt waits until the harm has made the action repeat a step or end, or until 5 s have passed in which the
// action did not need the broken part.
func (w *world) waitUntilFelt(ctx context.Context, id int64) {
	_ = waitFor(ctx, 5*time.Second, func() (bool, string) {
		a, err := w.readAction(ctx, id)
		if err != nil {
			return false, err.Error()
		}
		return a.Ended != "" || slices.ContainsFunc(a.Lines, func(l line) bool { return l.Attempt > 0 }), ""
	})
}

// removeLeftovers heals the cluster after a trial, and ends the trial's job.
func (w *world) removeLeftovers(ctx context.Context, c *counter) error {
	_ = w.signalProcess(unix.SIGCONT, "ctl", "preemptd")
	err := w.healAll(ctx)
	if !c.readSituation(ctx).hasEnded() {
		_, _ = w.runAsRoot(ctx, "scancel", "--full", fmt.Sprint(c.id))
	}
	return errors.Join(err, waitFor(ctx, 2*time.Minute, func() (bool, string) {
		said, err := w.runAsRoot(ctx, "sinfo", "-h", "-N", "-p", "main", "-o", "%N %T")
		return err == nil && strings.Count(said, " idle") == len(w.nodes), fmt.Sprint("nodes: ", said, err)
	}))
}
