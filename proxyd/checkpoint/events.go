// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/decisions"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/reports"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/waits"
)

// withheldSignal is a program for which a SIGTERM or SIGCONT of Slurm is withheld, or the task of a step that waits for its
// capsule, and has no program yet.
type withheldSignal struct {
	capsule *localCapsule
	program string
	endWait func() // of a waiting task
}

// watchCapsule handles the events of a capsule until the capsule ends.
func (lc *localCapsule) watchCapsule(ctx context.Context) {
	j := lc.j
	for {
		err := lc.capsule.Watch(ctx, func(e capsule.Event) { lc.handleEvent(e) })
		if ctx.Err() != nil || errors.Is(err, capsule.ErrStale) {
			return
		}
		j.log.Warn("events of a capsule were lost", "capsule", lc.index, "error", err)
	}
}

// handleEvent handles an event. It must not block.
func (lc *localCapsule) handleEvent(e capsule.Event) {
	j := lc.j
	p := e.Program.Name
	switch e.Kind {
	case capsule.Waiting:
		j.c.startBackground(func(ctx context.Context) { lc.restoreWaiting(ctx, p) })
	case capsule.Started:
		j.log.Info("program started", "capsule", lc.index, "program", p)
		if p == records.BatchProgram {
			lc.saveRunEnv()
			j.report.WriteStartLine()
		}
	case capsule.Present:
		// The program started before the watch. Or this daemon was restarted meanwhile; then its
		// predecessor has saved the environment.
		j.mu.Lock()
		missed := p == records.BatchProgram && lc.note.RunEnv == nil
		j.mu.Unlock()
		if missed {
			lc.saveRunEnv()
		}
		if p == records.BatchProgram {
			j.report.WriteStartLine()
		}
	case capsule.Ended:
		j.log.Info("program ended", "capsule", lc.index, "program", p, "status", describeEnd(e.Program.Status))
		j.mu.Lock()
		if p == records.BatchProgram {
			lc.scriptEnded = true
		} else {
			lc.note.forgetWarden(p, e.Program.WardenPID)
		}
		lc.note.endContainers(p)
		j.mu.Unlock()
	case capsule.SignalWithheld:
		j.withholdSignal(e.Signal, withheldSignal{capsule: lc, program: p})
	}
}

// describeEnd returns the exit code or the signal of a wait status.
func describeEnd(status syscall.WaitStatus) string {
	if !status.Signaled() {
		return fmt.Sprintf("exit code %d", status.ExitStatus())
	}
	if name := unix.SignalName(status.Signal()); name != "" {
		return "signal " + name
	}
	return fmt.Sprintf("signal %d", int(status.Signal()))
}

// awaitScriptEndEvent waits for the event of the batch script's end, if the script has ended.
// Events are in order: a SIGTERM that Slurm sent before has then been handed to
// handleTermination.
func (e runEnding) awaitScriptEndEvent(ctx context.Context) {
	j := e.j
	ctx, cancel := context.WithTimeout(ctx, scriptEndEventTimeout)
	defer cancel()
	j.mu.Lock()
	lc := j.capsules[0]
	j.mu.Unlock()
	if lc == nil {
		return
	}
	all, err := lc.capsule.Ended(ctx)
	if _, ended := all[records.BatchProgram]; err != nil || !ended {
		return
	}
	for {
		j.mu.Lock()
		over := lc.scriptEnded
		j.mu.Unlock()
		if over || !waits.SleepUnlessDone(ctx, pollInterval) {
			return
		}
	}
}

// scriptEndEventTimeout bounds awaitScriptEndEvent in a daemon that was started while the script
// ended: earlier events never arrive there.
const scriptEndEventTimeout = 5 * time.Second

// saveRunEnv saves the SLURM_* variables of this run's batch step, which are those of its warden.
// The script may have changed its own variables, and a restored script has the variables of an
// earlier run.
func (lc *localCapsule) saveRunEnv() {
	j := lc.j
	j.mu.Lock()
	warden := lc.note.wardenOf(records.BatchProgram)
	j.mu.Unlock()
	env, err := processes.SlurmEnv(warden)
	if err != nil {
		j.log.Warn("cannot read the environment of the batch step", "error", err)
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	lc.note.RunEnv = env
	if lc.note.FirstEnv == nil {
		lc.note.FirstEnv = env
	}
	lc.saveNote()
}

// withholdSignal withholds a signal until Slurm's intention is known.
func (j *job) withholdSignal(sig syscall.Signal, signal withheldSignal) {
	switch {
	case sig == syscall.SIGCONT && j.continuation.withheld.Add(signal):
		j.c.startBackground(j.continuation.decideContinuation)
	case sig == syscall.SIGTERM && j.termination.WithholdFor(signal):
		j.c.startBackground(j.handleTermination)
	}
}

// continuation has the programs of a job for which a SIGCONT of Slurm is withheld.
type continuation struct {
	j        *job
	withheld runs.Withheld[withheldSignal]
}

// decideContinuation asks Slurm why the job is sent SIGCONT. Slurm does so before the SIGTERM that ends a run, so that stopped
// programs receive the SIGTERM. If the job will run again, the programs do not get the SIGCONT: processes that the job
// itself has stopped are stopped in the next run, too.
func (c *continuation) decideContinuation(ctx context.Context) {
	v, reason, err := decisions.ForwardSignal, decisions.ForwardSignal.String(), error(nil)
	if snap := c.j.run.Snapshot(); !snap.HasBeen(runs.GivenUp) {
		v, reason, err = c.j.c.askVerdict(ctx, c.j.id, snap.Number)
	}
	c.j.log.Info("SIGCONT from Slurm", "verdict", reason, "error", err)
	if err != nil && ctx.Err() != nil {
		return // this daemon ends, see handleTermination
	}
	if all := c.withheld.EndDecision(); v == decisions.ForwardSignal {
		sendSignals(ctx, c.j.log, all, syscall.SIGCONT)
	}
}

// errTerminated ends the wait of a task that Slurm has sent SIGTERM.
var errTerminated = errors.New("the task was ended while it waited for its capsule")

// endWaitWhenTerminated ends the wait of a step's task after Slurm has sent the task SIGTERM, once the outcome is
// decided. If a checkpoint follows, the task is admitted meanwhile, because without the task the step is not complete,
// and cannot be captured. known is closed when this daemon knows the job's run, which the decision needs. ctx ends with
// the wait.
func (j *job) endWaitWhenTerminated(ctx context.Context, terminated, known <-chan struct{}, end context.CancelCauseFunc) {
	for _, event := range []<-chan struct{}{terminated, known} {
		select {
		case <-ctx.Done():
			return
		case <-event:
		}
	}
	j.withholdSignal(syscall.SIGTERM, withheldSignal{endWait: func() { end(errTerminated) }})
}

// endWaits ends the waits of the tasks among those that a signal was withheld from, and returns the programs.
func endWaits(all []withheldSignal) (programs []withheldSignal) {
	for _, w := range all {
		if w.endWait != nil {
			w.endWait()
		} else {
			programs = append(programs, w)
		}
	}
	return programs
}

// sendSignals sends each program the signals in their order.
func sendSignals(ctx context.Context, log *slog.Logger, programs []withheldSignal, signals ...syscall.Signal) {
	for _, p := range programs {
		for _, sig := range signals {
			if err := p.capsule.capsule.Signal(ctx, p.program, sig); err != nil && !errors.Is(err, capsule.ErrStale) {
				log.Warn("cannot send a signal", "program", p.program, "signal", sig, "error", err)
			}
		}
	}
}

// handleTermination asks Slurm why the job is being ended, and takes a checkpoint if the job will
// run again. After an error, and if the job will not run again, the programs get their SIGTERM,
// as without --singularity.
func (j *job) handleTermination(ctx context.Context) {
	snap := j.run.Snapshot()
	v, reason, err := decisions.ForwardSignal, decisions.ForwardSignal.String(), error(nil)
	if !snap.HasBeen(runs.GivenUp) { // else this daemon itself ends the run, which is not complete and is not captured.
		v, reason, err = j.c.askVerdict(ctx, j.id, snap.Number)
	}
	j.log.Info("SIGTERM from Slurm", "verdict", reason, "error", err)
	own := j.termination.RecentRequester()
	if err == nil && v == decisions.Requeued && own != nil && j.endsItself(ctx, own) {
		j.log.Info("the job has had itself requeued, and ends by itself", "program", own.Program)
		v, reason = decisions.ForwardSignal, "requeue that the job asked for"
		j.setState(runs.RequeuedItself)
	}
	if err == nil && v != decisions.ForwardSignal {
		_, err = j.c.requestCheckpoint(ctx, j, decisions.Request{After: v.Departure(), Reason: reason}, ignorePhase)
	}
	if err != nil && ctx.Err() != nil {
		// This daemon ends, and has decided nothing: the programs, which go on, are not to be ended by that. The node that
		// leads the checkpoint waits for the next daemon.
		j.log.Info("what follows a SIGTERM from Slurm is left to the next daemon", "error", err)
		return
	}
	if (v == decisions.Requeued || v == decisions.Preempted) && j.hasScriptEnded(err) && !j.ending.hasLostNode(ctx) {
		j.log.Info("the batch script had ended", "error", err)
		err = nil // the next run begins anew, if Slurm makes one
	}
	if err != nil {
		j.log.Error("the job ends without a checkpoint", "why", reason, "error", err)
		j.report.SetComment(reports.NoCheckpoint + reason + ": " + err.Error())
		if !errors.Is(err, errRestoring) { // else the next run resumes from the same checkpoint, and no work is lost
			// Before the programs get their SIGTERM: the log is open as long as the script runs.
			j.report.WriteLogLine(ctx, fmt.Sprintf("the job ends without a checkpoint (%s): %v; singctl show %d says more", reason, err, j.id))
		}
	}
	j.mu.Lock()
	a := j.ledAttempt
	j.mu.Unlock()
	if a != nil { // a job frozen for a requeue would not receive the signal
		a.outcome.StopWaiting()
	}
	if err != nil {
		j.setState(runs.Terminated)
	}
	all := endWaits(j.termination.EndDecision())
	if err == nil && v != decisions.ForwardSignal {
		return
	}
	// SIGCONT first, as slurmstepd does, so that stopped programs receive the SIGTERM.
	sendSignals(ctx, j.log, all, syscall.SIGCONT, syscall.SIGTERM)
}

// hasScriptEnded tells from the error of a checkpoint whether the job's batch script had ended by itself. Its node forgets the
// run soon after that, while Slurm still ends steps on the others.
func (j *job) hasScriptEnded(err error) bool {
	return errors.Is(err, errScriptEnded) || errors.Is(err, rpc.ErrNotHere) && !j.isLeader()
}

// slurmQueryTimeout leaves most of a KillWait of 30 s to the checkpoint.
const slurmQueryTimeout = 8 * time.Second

func (c *Conductor) askVerdict(ctx context.Context, job uint32, run int) (v decisions.Verdict, reason string, err error) {
	ctx, cancel := context.WithTimeout(ctx, slurmQueryTimeout)
	defer cancel()
	s, err := c.Slurm.Show(ctx, slurm.JobName(job))
	if err != nil {
		return decisions.ForwardSignal, decisions.ForwardSignal.String(), err
	}
	v = decisions.DecideVerdict(s, run, c.OnTimeLimit)
	return v, decisions.DescribeVerdict(v, s), nil
}
