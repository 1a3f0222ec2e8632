// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
)

// asked is a program that Slurm wants to end, and is not told yet.
type asked struct {
	h       *held
	program string
}

// watch follows a capsule until it goes.
func (j *job) watch(ctx context.Context, h *held) {
	for {
		err := h.c.Watch(ctx, func(e capsule.Event) { j.heard(h, e) })
		if ctx.Err() != nil || errors.Is(err, capsule.ErrStale) {
			return
		}
		j.log.Warn("events of a capsule were lost", "capsule", h.index, "error", err)
	}
}

// heard takes one event. It must not block.
func (j *job) heard(h *held, e capsule.Event) {
	p := e.Program.Name
	switch e.Kind {
	case capsule.Waiting:
		j.c.spawn(func(ctx context.Context) { j.restore(ctx, h, p) })
	case capsule.Started:
		j.log.Info("program started", "capsule", h.index, "program", p)
		if p == batch {
			j.noteEnv(h)
		}
	case capsule.Present:
		// It was faster than the watch; or this daemon was started since, and its predecessor has
		// noted it.
		j.mu.Lock()
		missed := p == batch && h.note.Now == nil
		j.mu.Unlock()
		if missed {
			j.noteEnv(h)
		}
	case capsule.Ended:
		j.log.Info("program ended", "capsule", h.index, "program", p, "status", int(e.Program.Status))
		if p == batch {
			j.mu.Lock()
			h.over = true
			j.mu.Unlock()
		}
	case capsule.Asked:
		j.withhold(asked{h, p})
	}
}

// hearOut waits until it was heard that the batch script has ended, if it has. What its
// warden was asked before, Slurm's SIGTERM perhaps, is heard before that, and somebody
// decides about it from then on.
func (j *job) hearOut(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, hearWithin)
	defer cancel()
	j.mu.Lock()
	h := j.held[0]
	j.mu.Unlock()
	if h == nil {
		return
	}
	all, err := h.c.Ended(ctx)
	if _, ended := all[batch]; err != nil || !ended {
		return
	}
	for {
		j.mu.Lock()
		over := h.over
		j.mu.Unlock()
		if over || !sleepUnlessDone(ctx, quietLook) {
			return
		}
	}
}

// hearWithin is for a daemon that was started while the script ended, and is told of
// nothing that was before.
const hearWithin = 5 * time.Second

// noteEnv remembers with which SLURM_* variables this run's batch step began: a script
// may have changed its own since, and a restored one has those of an earlier run. The
// warden was started with them.
func (j *job) noteEnv(h *held) {
	j.mu.Lock()
	pid := h.note.Wardens[batch]
	j.mu.Unlock()
	env, err := slurmEnv(pid)
	if err != nil {
		j.log.Warn("environment of the batch step", "error", err)
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	h.note.Now = env
	if h.note.Env == nil {
		h.note.Env = env
	}
	j.save(h)
}

func slurmEnv(pid int) (map[string]string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return nil, err
	}
	env := map[string]string{}
	for v := range strings.SplitSeq(string(b), "\x00") {
		if k, val, ok := strings.Cut(v, "="); ok && strings.HasPrefix(k, "SLURM") {
			env[k] = val
		}
	}
	return env, nil
}

// withhold keeps a SIGTERM until it is known what it is for.
func (j *job) withhold(a asked) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.asked = append(j.asked, a)
	if j.judging {
		return
	}
	j.judging = true
	j.c.spawn(j.judge)
}

// judge finds out why the job is being killed, and acts. What it cannot find out, or
// cannot prevent, happens as without us.
func (j *job) judge(ctx context.Context) {
	j.mu.Lock()
	run, gaveUp := j.run, j.gaveUp
	j.mu.Unlock()
	v, reason, err := passOn, passOn.String(), error(nil)
	if !gaveUp { // else it is we who end it, and there is nothing whole to be captured
		v, reason, err = j.c.verdict(ctx, j.id, run)
	}
	j.log.Info("asked to end", "verdict", reason, "error", err)
	if err == nil && v != passOn {
		_, err = j.c.requestCheckpoint(ctx, j, checkpointRequest{After: v, Reason: reason})
	}
	if errors.Is(err, errScriptEnded) && v == vacate {
		err = j.noteOver(ctx)
	}
	if err != nil {
		j.log.Error("the job ends without a checkpoint", "why", reason, "error", err)
		j.say(sayNone + reason + ": " + err.Error())
	}
	j.mu.Lock()
	if a := j.ledAttempt; a != nil { // one that stands would not hear the signal
		a.stopWaiting()
	}
	all := j.asked
	j.asked, j.judging, j.decided = nil, false, true
	j.told = j.told || err != nil
	j.mu.Unlock()
	if err == nil && v != passOn {
		return
	}
	// As slurmstepd does it, so that what sleeps hears it too.
	for _, a := range all {
		err := errors.Join(a.h.c.Signal(ctx, a.program, syscall.SIGCONT), a.h.c.Signal(ctx, a.program, syscall.SIGTERM))
		if err != nil && !errors.Is(err, capsule.ErrStale) {
			j.log.Warn("signal", "program", a.program, "error", err)
		}
	}
}

// noteOver remembers how the batch script has ended, of a job that Slurm requeues before it
// has heard: the next run ends so too, and nothing is done twice. A script that lost a node
// may have ended for that, which is none of its own doing.
func (j *job) noteOver(ctx context.Context) error {
	j.mu.Lock()
	h, rec, where := j.held[0], *j.rec, j.where
	j.mu.Unlock()
	if h == nil {
		return errScriptEnded
	}
	for _, node := range where.today {
		if node == j.c.Node {
			continue
		}
		if err := j.c.callNode(ctx, node, j.id, 0, callUnrestored, empty{}, nil); errors.Is(err, ErrAway) {
			return fmt.Errorf("%w: %w", errScriptEnded, err)
		}
	}
	all, err := h.c.Ended(ctx)
	if err != nil {
		return err
	}
	status, ok := all[batch]
	if !ok {
		return errScriptEnded
	}
	rec.Over = &status
	if err := j.c.records.save(&rec); err != nil {
		return err
	}
	j.log.Info("the batch script had ended", "status", int(status))
	return nil
}

// verdictDeadline leaves most of a KillWait of 30 s to the checkpoint.
const verdictDeadline = 8 * time.Second

func (c *Conductor) verdict(ctx context.Context, job uint32, run int) (v verdict, reason string, err error) {
	ctx, cancel := context.WithTimeout(ctx, verdictDeadline)
	defer cancel()
	s, err := c.Slurm.Show(ctx, name(job))
	if err != nil {
		return passOn, passOn.String(), err
	}
	v = why(s, run, c.OnTimeLimit)
	return v, because(v, s), nil
}
