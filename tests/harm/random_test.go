//go:build harm

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package harm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// storm is a queue of jobs, and the random events that hit them.
type storm struct {
	*world
	rng            *rand.Rand
	jobs           []*counter
	down           int // events until the broken parts are healed; 0: no part is broken
	begun, refused int
	submitted      int
	ended          int               // jobs that were right, and have been replaced
	held           map[*counter]bool // the last request for the job leaves the job held, or may
	broken         map[string]string // how nodes were lost: "fail" or "cut"
	judged         verdicts
	spent          map[string]time.Duration // time that events took, by their names
}

// verdicts are the numbers of jobs of a storm that failed, by the kind of failure.
type verdicts struct {
	lost        int // did not complete, or wrote something wrong
	unexplained int // held, and no request or failure says why
	failed      int // held, for the last action on the job failed
	bySlurm     int // held by Slurm after a failed launch, without a checkpoint to go on from
}

func (v verdicts) String() string {
	return fmt.Sprintf("%d lost, %d held without a reason; %d held after an action that failed, %d held by Slurm without a checkpoint",
		v.lost, v.unexplained, v.failed, v.bySlurm)
}

// event is a kind of random event.
type event struct {
	name   string
	weight int
	do     func(context.Context, *storm, *counter) error
}

// requestLimit bounds how long a person tries to make a request while preemptd, or a service that preemptd needs, is away.
const requestLimit = 15 * time.Second

// askPreemptd asks preemptd for something as a person. A refusal is an answer: the job is not in
// the state for the request, or something is under way.
func askPreemptd(user string, args func(*rand.Rand) []string) func(context.Context, *storm, *counter) error {
	return func(ctx context.Context, s *storm, c *counter) error {
		words := args(s.rng)
		holds := words[0] == "hold" || slices.Contains(words, "--hold")
		releases := words[0] == "resume" || words[0] == "release"
		was := s.held[c] && !releases // a waiting job that is held stays held after other changes
		words = append([]string{words[0], fmt.Sprint(c.id)}, words[1:]...)
		ctx, cancel := context.WithTimeout(ctx, requestLimit)
		defer cancel()
		_, err := s.beginAction(ctx, user, words...)
		switch {
		case err != nil:
			s.refused++
			s.held[c] = s.held[c] || holds // the action may have begun, and only the answer be lost
		default:
			s.begun++
			s.held[c] = holds || was
		}
		return nil
	}
}

func fixedArgs(args ...string) func(*rand.Rand) []string {
	return func(*rand.Rand) []string { return args }
}

// bypassPreemptd has an administrator run a command of Slurm directly, not by preemptd; Slurm may refuse the command.
func bypassPreemptd(verb string, args ...string) func(context.Context, *storm, *counter) error {
	return func(ctx context.Context, s *storm, c *counter) error {
		id := fmt.Sprint(c.id)
		if verb == "update" {
			id = "JobId=" + id
		}
		s.held[c] = s.held[c] || strings.HasSuffix(verb, "hold") // a release may come too early for an action that holds
		_ = s.Scontrol(ctx, append([]string{verb, id}, args...)...)
		return nil
	}
}

// killDaemon kills a daemon of ctl, which stays away for a few events.
func killDaemon(command ...string) func(context.Context, *storm, *counter) error {
	return func(_ context.Context, s *storm, _ *counter) error {
		if err := s.signalProcess(unix.SIGKILL, "ctl", command...); err == nil {
			s.down = 2
		}
		return nil
	}
}

// loseNode has a node fail, or cut off.
func loseNode(verb string) func(context.Context, *storm, *counter) error {
	return func(ctx context.Context, s *storm, _ *counter) error {
		node := s.nodes[s.rng.IntN(len(s.nodes))]
		if was := s.broken[node]; was == "fail" || was == verb { // the node is broken already
			return nil
		}
		s.down, s.broken[node] = max(s.down, 3), verb
		_, err := s.Run(ctx, verb, node)
		return err
	}
}

// events are the random events of a storm. No event ends a job.
var events = []event{
	{"preempt", 6, askPreemptd("alice", fixedArgs("preempt"))},
	{"preempt and hold", 5, askPreemptd("alice", fixedArgs("preempt", "--hold"))},
	{"resume", 6, askPreemptd("alice", fixedArgs("resume"))},
	{"migrate to", 5, askPreemptd("alice", func(r *rand.Rand) []string { return []string{"migrate", "--to", fmt.Sprintf("n%d", 1+r.IntN(3))} })},
	{"migrate away", 5, askPreemptd("alice", func(r *rand.Rand) []string { return []string{"migrate", "--away", fmt.Sprintf("n%d", 1+r.IntN(3))} })},
	{"resize", 4, askPreemptd("operator", func(r *rand.Rand) []string { return []string{"resize", "--nodes", fmt.Sprint(1 + r.IntN(2))} })},
	{"resize GPUs", 4, askPreemptd("operator", func(r *rand.Rand) []string { return []string{"resize", "--gpus", fmt.Sprint(1 + r.IntN(2))} })},
	{"hold", 4, askPreemptd("alice", fixedArgs("hold"))},
	{"release", 4, askPreemptd("alice", fixedArgs("release"))},
	{"requeue", 4, askPreemptd("alice", func(r *rand.Rand) []string {
		return []string{"requeue", "--qos", []string{"basic", "standard", "premium"}[r.IntN(3)]}
	})},
	{"kill preemptd", 4, func(_ context.Context, s *storm, _ *counter) error {
		_ = s.signalProcess(unix.SIGKILL, "ctl", "preemptd")
		return nil
	}},
	{"kill proxyd", 3, func(_ context.Context, s *storm, _ *counter) error {
		_ = s.signalProcess(unix.SIGKILL, s.nodes[s.rng.IntN(3)], "proxyd", "daemon")
		return nil
	}},
	{"kill slurmrestd", 2, killDaemon("slurmrestd", "-a", "rest_auth/local")},
	{"kill slurmctld", 1, func(ctx context.Context, s *storm, c *counter) error {
		if s.down > 0 { // the daemon may be away already
			return nil
		}
		return errors.Join(s.savedByAny(ctx), killDaemon("slurmctld", "-D", "-i")(ctx, s, c))
	}},
	{"fail a node", 2, loseNode("fail")},
	{"cut a node", 2, loseNode("cut")},
	{"scontrol hold", 2, bypassPreemptd("hold")},
	{"scontrol release", 2, bypassPreemptd("release")},
	{"scontrol requeue", 3, bypassPreemptd("requeue")},
	{"scontrol requeuehold", 2, bypassPreemptd("requeuehold")},
	{"scontrol comment", 2, bypassPreemptd("update", "Comment=urgent")},
	{"scontrol nodes", 2, bypassPreemptd("update", "ExcNodeList=n2")},
	{"work", 8, func(ctx context.Context, s *storm, _ *counter) error { return s.waitForWork(ctx) }},
}

// savedByAny waits until slurmctld has saved its state, by a change to any job that has not ended: slurmctld saves all
// jobs together.
func (s *storm) savedByAny(ctx context.Context) error {
	var errs []error
	for _, c := range s.jobs {
		err := s.WaitForStateSave(ctx, fmt.Sprint(c.id))
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (s *storm) pickEvent() event {
	sum := 0
	for _, e := range events {
		sum += e.weight
	}
	n := s.rng.IntN(sum)
	for _, e := range events {
		if n -= e.weight; n < 0 {
			return e
		}
	}
	return events[0]
}

// mendFaults heals the parts that have been broken for some events.
func (s *storm) mendFaults(ctx context.Context) error {
	if s.down == 0 {
		return nil
	}
	if s.down--; s.down > 0 {
		return nil
	}
	clear(s.broken)
	return s.healAll(ctx)
}

// waitForWork waits until some job has counted on, if any runs: events that follow each other at
// once would only meet jobs that start.
func (s *storm) waitForWork(ctx context.Context) error {
	was := make([]int, len(s.jobs))
	for i, c := range s.jobs {
		was[i] = c.readCount()
	}
	_ = waitFor(ctx, 10*time.Second, func() (bool, string) {
		moved := 0
		for i, c := range s.jobs {
			if c.readCount() > was[i]+5 {
				moved++
			}
		}
		return moved >= 3, "nothing moves"
	})
	return nil
}

// runStorm has random events hit many jobs, and checks that all results are right in the end. The same seed gives the
// same events in the same order.
func (w *world) runStorm(t *testing.T) {
	t.Logf("%d jobs, %d events", *randomJobs, *randomEvents)
	ctx, cancel := context.WithTimeout(t.Context(), 45*time.Minute+time.Duration(*randomEvents)*10*time.Second)
	defer cancel()
	s := &storm{world: w, rng: rand.New(rand.NewPCG(*seed, 2)), held: map[*counter]bool{}, broken: map[string]string{}, spent: map[string]time.Duration{}}
	for place := range *randomJobs {
		c, err := s.submitJob(ctx, place)
		if err != nil {
			t.Fatal(err)
		}
		s.jobs = append(s.jobs, c)
	}
	if err := s.waitForWork(ctx); err != nil {
		t.Fatal(err)
	}
	s.checkpointJobs(ctx)
	happened := s.playEvents(ctx, t)
	t.Logf("%v; %d actions begun, %d requests refused; %d jobs ended before the end", happened, s.begun, s.refused, s.ended)
	t.Logf("time by event: %v", s.spent)
	if s.begun == 0 {
		t.Error("preemptd has begun no action: the storm was none")
	}
	if err := s.settleAndCheck(ctx, t); err != nil {
		t.Error(err)
	}
	t.Logf("seed %d, %d jobs: %s", *seed, s.submitted, s.judged)
}

// playEvents has random events happen until there were enough, or the time for events is over. A
// job that is lost or held fails the test, and the storm goes on, so that a long storm finds all
// that is wrong.
func (s *storm) playEvents(ctx context.Context, t *testing.T) map[string]int {
	happened, began := map[string]int{}, time.Now()
	for i := range *randomEvents {
		if *within > 0 && time.Since(began) > *within {
			t.Logf("%d of %d events in %s", i, *randomEvents, *within)
			break
		}
		if i%10 == 9 && s.down == 0 {
			start := time.Now()
			if err := errors.Join(s.replaceEndedJobs(ctx, t), s.checkHeldJobs(ctx, t)); err != nil {
				t.Errorf("before event %d: %v", i, err)
			}
			s.spent["judge"] += time.Since(start)
		}
		e, c, start := s.pickEvent(), s.jobs[s.rng.IntN(len(s.jobs))], time.Now()
		happened[e.name]++
		if err := errors.Join(e.do(ctx, s, c), s.mendFaults(ctx)); err != nil {
			t.Fatalf("event %d, %s, job %d: %v", i, e.name, c.id, err)
		}
		s.spent[e.name] += time.Since(start)
		t.Logf("event %d: %s, job %d: %s", i, e.name, c.id, time.Since(start).Round(time.Millisecond))
	}
	return happened
}

// checkpointJobs makes a checkpoint of each job that runs: a node that fails is to cost a job no
// more than the time since its last.
func (s *storm) checkpointJobs(ctx context.Context) {
	for _, c := range s.jobs {
		_, _ = s.Exec(ctx, "ctl", "alice", "singctl", "-q", "checkpoint", fmt.Sprint(c.id))
	}
}

// settleAndCheck heals everything, waits for all actions, releases held jobs, and checks that the results of all jobs
// are right.
func (s *storm) settleAndCheck(ctx context.Context, t *testing.T) error {
	if err := s.healAll(ctx); err != nil {
		return err
	}
	var status struct {
		Actions []act
	}
	err := waitFor(ctx, 15*time.Minute, func() (bool, string) {
		status.Actions = nil
		err := s.askSingctl(ctx, &status, "root", "status")
		return err == nil && len(status.Actions) == 0, fmt.Sprint(err, status.Actions)
	})
	if err != nil {
		return err
	}
	if err := s.checkHeldJobs(ctx, t); err != nil {
		return err
	}
	var errs []error
	for _, c := range s.jobs {
		if c.readSituation(ctx).held {
			_ = s.Scontrol(ctx, "release", fmt.Sprint(c.id))
		}
		_ = s.Scontrol(ctx, "update", fmt.Sprintf("JobId=%d", c.id), "ExcNodeList=", "ReqNodeList=")
	}
	for _, c := range s.jobs {
		if err := c.stop(); err != nil {
			return err
		}
	}
	for _, c := range s.jobs {
		err := c.finishAndCheck(ctx)
		if err != nil {
			s.judged.lost++
		}
		t.Logf("job %d: %d, %s: %v", c.id, c.readCount(), c.readSituation(ctx), err)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// checkHeldJobs fails the test for actions that are stuck, and for jobs that are held although the last request for
// them does not leave them held.
func (s *storm) checkHeldJobs(ctx context.Context, t *testing.T) error {
	t.Helper()
	var all struct {
		Actions []act
	}
	err := waitFor(ctx, time.Minute, func() (bool, string) { // preemptd may have just been killed
		all.Actions = nil
		err := s.askSingctl(ctx, &all, "root", "history", "--limit", "100")
		return err == nil || !isControllerAway(err), fmt.Sprint(err)
	})
	if err != nil {
		return err
	}
	ends, last := map[string]int{}, map[int64]*act{}
	var errs []error
	for i := range all.Actions {
		a := &all.Actions[i]
		if !slices.ContainsFunc(s.jobs, func(c *counter) bool { return c.id == a.Job }) {
			continue
		}
		ends[a.State]++
		if a.State == "stuck" {
			errs = append(errs, fmt.Errorf("%s", a))
		}
		if last[a.Job] == nil || a.ID > last[a.Job].ID {
			last[a.Job] = a
		}
	}
	t.Logf("actions: %v", ends)
	for _, c := range s.jobs {
		if a := last[c.id]; a == nil || a.Ended != "" {
			errs = append(errs, s.holdExplained(ctx, t, c, a))
		}
	}
	return errors.Join(errs...)
}

// releasedWithin bounds the time until proxyd has released a job that Slurm holds after a failed launch: the node that is
// elected for that looks once a minute, and may just have been killed.
const releasedWithin = 150 * time.Second

// holdExplained looks for the reason of a job that is held although no request leaves it held, and counts the job by
// the reason. The job's last action has ended.
func (s *storm) holdExplained(ctx context.Context, t *testing.T, c *counter, last *act) error {
	t.Helper()
	now := c.readSituation(ctx)
	if now.isHeldForLaunch() && !s.held[c] {
		made, err := c.listCheckpoints(ctx)
		if err == nil && len(made) == 0 {
			s.judged.bySlurm++
			t.Logf("held by Slurm, and without a checkpoint: job %d is %s", c.id, now)
			return nil
		}
		// A killed slurmctld has launched the job again. proxyd releases the job.
		_ = waitFor(ctx, releasedWithin, func() (bool, string) {
			now = c.readSituation(ctx)
			return now.state != "" && !now.isHeldForLaunch(), now.String()
		})
	}
	switch {
	case !now.held:
		s.held[c] = s.held[c] && now.state == "" // Slurm does not say
		return nil
	case s.held[c]:
		return nil
	case last != nil && last.Problem != "":
		s.judged.failed++
		t.Logf("held, for its last action failed: job %d is %s: %s", c.id, now, last)
		return nil
	}
	s.judged.unexplained++
	s.held[c] = true // once is enough
	return fmt.Errorf("job %d is held, which no request wanted: %s", c.id, now)
}
