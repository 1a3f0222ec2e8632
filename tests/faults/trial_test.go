//go:build faults

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// trial is a single fault at a single moment.
type trial struct {
	fault  fault
	moment stageMoment
}

func (t trial) name() string {
	return strings.NewReplacer(" ", "_", ",", "", "'", "").Replace(fmt.Sprintf("%s/%s/%s", t.moment.stage, t.moment.name, t.fault.name))
}

// outcome is the outcome of a trial for the job.
type outcome struct {
	what  string // "ran on", "resumed", "held, then resumed"
	job   string
	at    string // the moment that was really hit
	why   string // the reason of a held job
	noise string // a line that Slurm's programs said in the log
	seeds string // -seed of the run; of several, in a row that was read from a page
	took  time.Duration
	err   error // the job is lost, or its results are wrong

	evidence string // the folder with the logs of a trial that went wrong; "": the trial went well
}

// lifetime bounds a trial.
const lifetime = 8 * time.Minute

// runTrial does a single trial. Afterwards the cluster has no traces of the trial, unless broken is not nil.
func (c *cluster) runTrial(ctx context.Context, t trial, seed uint64) (o outcome, broken error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lifetime, errors.New("out of time"))
	defer cancel()
	began := time.Now()
	h := fnv.New64a()
	h.Write([]byte(t.name()))
	s := &scene{c: c, rng: rand.New(rand.NewPCG(seed, h.Sum64())), store: c.Shared("singularity")}
	if t.fault.small {
		v, err := c.mountVolume(ctx)
		if err != nil {
			return o, err
		}
		s.store = v.dir
		defer func() { broken = errors.Join(broken, v.restoreStores(context.WithoutCancel(ctx))) }()
	}
	s.j, broken = c.submitJob(ctx, fmt.Sprintf("%x", h.Sum64()), t.moment.stage.hasGPUs())
	if broken == nil {
		// A node of the trial before may still be starting. A fault must cost a job no more than the time since its
		// last checkpoint.
		broken = waitFor(ctx, time.Minute, func() (bool, string) {
			_, err := c.Exec(ctx, "ctl", "alice", "singctl", "checkpoint", s.j.id)
			return err == nil, fmt.Sprint(err)
		})
	}
	if broken == nil {
		broken = s.c.WaitForStateSave(ctx, s.j.id)
	}
	if broken == nil {
		o, broken = s.playTrial(ctx, t)
	}
	o.took = time.Since(began)
	if *keep != "" && (o.err != nil || broken != nil) {
		o.evidence = filepath.Join(*keep, fmt.Sprintf("%s-%s-%s", strings.ReplaceAll(t.name(), "/", "-"), c.Name, began.Format("20060102-150405")))
		broken = errors.Join(broken, c.saveEvidence(ctx, o.evidence, s.j))
	}
	if s.j != nil {
		o.job = s.j.id
	}
	clear, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
	defer cancel()
	return o, errors.Join(broken, s.removeLeftovers(clear))
}

// removeLeftovers undoes the harm and ends the job of a failed trial.
func (s *scene) removeLeftovers(ctx context.Context) error {
	err := s.restoreAll(ctx)
	if s.j != nil && s.j.id != "" {
		_ = s.c.Scontrol(ctx, "update", "JobId="+s.j.id, "Requeue=0")
		_, _ = s.c.Exec(ctx, "ctl", "root", "scancel", "--full", s.j.id)
	}
	for _, n := range append([]string{"ctl"}, nodes...) {
		_, e := s.c.Run(ctx, "heal", n)
		err = errors.Join(err, e)
	}
	for _, n := range nodes {
		_ = s.c.Scontrol(ctx, "update", "NodeName="+n, "State=RESUME") // refused for a node in service
	}
	return errors.Join(err, s.c.waitUntilIdle(ctx))
}

// playTrial strikes at the moment and follows the job to its end.
func (s *scene) playTrial(ctx context.Context, t trial) (outcome, error) {
	o := outcome{}
	before, err := s.j.readState(ctx)
	if err != nil {
		return o, err
	}
	if t.moment.stage.is(returns) {
		if err := s.c.Scontrol(ctx, "requeue", s.j.id); err != nil {
			return o, err
		}
		if err := s.j.waitUntilRequeued(ctx); err != nil {
			return o, err
		}
		if err := s.c.WaitForStateSave(ctx, s.j.id); err != nil {
			return o, err
		}
	}
	if o.at, err = s.strikeAtMoment(ctx, t, before); err != nil {
		return o, err
	}
	mended := false
	mend := func() error {
		if mended {
			return nil
		}
		mended = true
		return t.fault.mend(s, ctx)
	}
	if t.fault.lasts > 0 {
		if err := waitWhile(ctx, t.fault.lasts); err != nil {
			return o, err
		}
		if err := mend(); err != nil {
			return o, err
		}
	}
	if t.moment.stage.is(runsOn) && t.fault.stored {
		// Only a restore looks at the store.
		_ = s.j.waitForCounting(ctx, 60*time.Second)
		if err := s.c.Scontrol(ctx, "requeue", s.j.id); err != nil {
			return o, err
		}
	}
	after, err := s.settleJob(ctx, &o, mend)
	if err == nil {
		o.what = "ran on"
		if after.restarts > before.restarts {
			o.what = "resumed"
		}
		if o.why != "" {
			o.what = "held, then resumed"
		}
		wanted := before.restarts
		if !t.moment.stage.is(runsOn) {
			wanted++
		}
		o.noise, err = s.finishAndCheck(ctx, after.restarts, o.why != "" || after.restarts > wanted)
	}
	o.err = err
	if err != nil {
		o.what = "lost"
	}
	return o, mend()
}

// strikeAtMoment waits for the moment, stops the daemon that has reached the moment, does the harm, and continues the
// daemon, if the harm has not killed it. The result is the moment of the harm.
func (s *scene) strikeAtMoment(ctx context.Context, t trial, before state) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 3*time.Minute, errors.New("the moment did not come"))
	defer cancel()
	for try := 1; ; try++ {
		at, pid, err := s.stopAtMoment(ctx, t.moment, before)
		if err != nil {
			return "", err
		}
		if at != t.moment.name && t.moment.stage.is(runsOn) && try < 6 {
			// Too late for the moment. The trial can try again with another checkpoint.
			unix.Kill(pid, unix.SIGCONT)
			if err := waitWhile(ctx, time.Second); err != nil {
				return "", err
			}
			continue
		}
		err = t.fault.hit(ctx, s)
		unix.Kill(pid, unix.SIGCONT) // if the daemon has survived
		return at, err
	}
}

// stopAtMoment waits for the moment, and stops the daemon that has reached it.
func (s *scene) stopAtMoment(ctx context.Context, m stageMoment, before state) (at string, pid int, err error) {
	logs, err := s.c.followLogs()
	if err != nil {
		return "", 0, err
	}
	defer logs.close()
	pids := map[string]int{}
	for _, n := range nodes {
		if pids[n], err = s.c.findProxyd(n); err != nil {
			return "", 0, err
		}
	}
	switch {
	case m.stage.is(runsOn):
		go s.c.Exec(ctx, "ctl", "alice", "singctl", "checkpoint", s.j.id)
	case m.stage.is(leaves):
		go s.c.Scontrol(ctx, "requeue", s.j.id)
	case m.stage.is(returns):
		go s.j.startAgain(ctx)
	}
	l, err := logs.waitForLine(ctx, func(l line) bool { return m.at(l, s.j.id) })
	if err != nil {
		return "", 0, err
	}
	if m.name == "dump" {
		if err := waitWhile(ctx, time.Duration(s.rng.IntN(250))*time.Millisecond); err != nil {
			return "", 0, err
		}
	}
	if err := stopProcess(ctx, pids[l.host]); err != nil {
		return "", 0, err
	}
	at = m.name
	more, err := logs.newLines()
	if err != nil {
		return "", 0, err
	}
	if later := lastMoment(more, m.stage, s.j.id); later != "" && !m.stage.is(returns) || later == "over" {
		at = later
	}
	where := before.nodes
	if m.stage.is(returns) {
		now, err := s.j.readState(ctx)
		if err != nil {
			return "", 0, err
		}
		where = now.nodes
	}
	if len(where) != 2 {
		return "", 0, fmt.Errorf("the job is on %v", where)
	}
	s.leader, s.peer = where[0], where[1]
	return at, pids[l.host], nil
}

// settleJob follows the job until the job runs, and restarts the job after each requeue.
// A held job must have a reason; the job is released once the fault is mended. A job that Slurm itself holds must be
// released without that.
func (s *scene) settleJob(ctx context.Context, o *outcome, mend func() error) (state, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 4*time.Minute, errors.New("the job does not get on"))
	defer cancel()
	var last state
	var waits, hurried time.Time
	for holds := 0; ; {
		if err := waitWhile(ctx, 300*time.Millisecond); err != nil {
			return last, fmt.Errorf("%w: %s", err, last)
		}
		now, err := s.j.readState(ctx)
		if err != nil && strings.Contains(err.Error(), "Invalid job id") {
			return last, fmt.Errorf("Slurm has forgotten it: %s", last)
		}
		if err != nil {
			continue // slurmctld is away
		}
		if now.name != last.name || now.restarts != last.restarts {
			waits = time.Now()
		}
		last = now
		switch {
		case now.over():
			// A job that slurmctld ended by mistake is requeued when all nodes are done with it.
			if now.name == "CANCELLED" || time.Since(waits) > lastChance {
				return now, fmt.Errorf("ended: %s", now)
			}
		case now.held():
			if time.Since(waits) < patience || now.heldForLaunch() && time.Since(waits) < releasedWithin {
				continue
			}
			why, err := reasonOf(now)
			if err != nil {
				return now, err
			}
			if holds++; holds > 3 {
				return now, fmt.Errorf("held again and again: %s", now)
			}
			o.why = why
			if err := mend(); err != nil {
				return now, err
			}
			if err := s.j.startAgain(ctx); err != nil {
				return now, err
			}
			waits = time.Now()
		case now.waits():
			if time.Since(waits) > patience && time.Since(hurried) > 4*time.Second {
				hurried = time.Now()
				_ = s.c.Scontrol(ctx, "update", "JobId="+s.j.id, "StartTime=now")
			}
		case now.name == "RUNNING":
			if s.j.waitForCounting(ctx, 3*time.Second) != nil {
				continue
			}
			// The job may have been requeued meanwhile.
			if again, err := s.j.readState(ctx); err == nil && again.name == "RUNNING" && again.restarts == now.restarts {
				return again, nil
			}
		}
	}
}

// lastChance is how long a job may be in a final state before it counts as lost: Slurm may requeue the job until then.
const lastChance = 15 * time.Second

// releasedWithin bounds the time until a node has seen that Slurm holds the job after a failed launch: the node that is
// elected for that looks once a minute, and may just have been killed.
const releasedWithin = 150 * time.Second

var held = regexp.MustCompile(`singularity: held: (.*)`)

// reasonOf returns the reason of a held job, as its user sees it.
func reasonOf(s state) (string, error) {
	if m := held.FindStringSubmatch(s.comment); m != nil {
		return m[1], nil
	}
	return "", fmt.Errorf("held without a reason: %s", s)
}

// finishAndCheck has the job come to its end, and checks the job's output and leftovers.
func (s *scene) finishAndCheck(ctx context.Context, rollbacks int, surprised bool) (noise string, err error) {
	if err := os.WriteFile(s.c.Shared(s.j.folder+"/stop"), nil, 0o644); err != nil {
		return "", err
	}
	var last state
	err = waitFor(ctx, 4*time.Minute, func() (bool, string) {
		now, err := s.j.readState(ctx)
		if err == nil {
			last = now
		}
		return err == nil && now.over(), fmt.Sprint("the end: ", now, err)
	})
	if err != nil {
		return "", err
	}
	if last.name != "COMPLETED" {
		text, _ := os.ReadFile(s.c.Shared(s.j.folder + "/log"))
		return "", fmt.Errorf("%s; the log ends %q", last, text[max(0, len(text)-300):])
	}
	if noise, err = s.j.checkOutput(ctx, rollbacks, surprised); err != nil {
		return "", err
	}
	return noise, waitFor(ctx, 60*time.Second, func() (bool, string) {
		left, err := s.c.listLeftovers(ctx, s.j.id)
		if err != nil { // a node is off and has no leftovers
			return true, ""
		}
		return left == "", "left on the nodes: " + left
	})
}
