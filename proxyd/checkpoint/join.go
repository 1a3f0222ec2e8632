// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/files"
	"github.com/singularity-slurm/singularity-slurm/proxyd/nodesocket"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/srun"
)

// Join admits a task: how and where its warden starts the program. At the first
// task of a run the run is looked up in Slurm, and its capsules are made or restored.
func (c *Conductor) Join(ctx context.Context, t nodesocket.Join) (nodesocket.Admission, error) {
	if t.Options["lease"] != "" {
		return c.leases.beginLease(ctx, t)
	}
	j := c.jobFor(t.Job)
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	lookedUp := make(chan struct{})
	noteLookedUp := sync.OnceFunc(func() { close(lookedUp) })
	if t.Terminated != nil {
		go j.endWaitWhenTerminated(ctx, t.Terminated, lookedUp, end)
	}
	known := j.run.Snapshot().Record != nil
	j.mu.Lock()
	j.awaitsProtection = !known
	j.mu.Unlock()
	if err := c.waitForShared(ctx, t); err != nil {
		return nodesocket.Admission{}, err
	}
	for {
		admission, err := c.admitOrWait(ctx, t, noteLookedUp)
		var inProgress *inProgressError
		if !errors.As(err, &inProgress) {
			return admission, err
		}
		if err := inProgress.membership.awaitEnd(ctx); err != nil {
			return admission, err
		}
		if inProgress.membership.capsulesGone { // The task ends with its job; ctx ends with the task.
			<-ctx.Done()
			return admission, context.Cause(ctx)
		}
	}
}

// inProgressError says that a new task must wait, because a checkpoint in progress does not
// contain the task.
type inProgressError struct{ membership *membership }

func (e *inProgressError) Error() string {
	return fmt.Sprintf("checkpoint %s is in progress", e.membership.id)
}

// admitOrWait admits a task, or returns an inProgressError. noteLookedUp is called when the job's run is known here.
func (c *Conductor) admitOrWait(ctx context.Context, t nodesocket.Join, noteLookedUp func()) (nodesocket.Admission, error) {
	j := c.jobFor(t.Job)
	j.capsulesMu.Lock()
	defer j.capsulesMu.Unlock()
	if len(j.localCapsules()) == 0 || t.Step == records.BatchProgram {
		reason, err := j.lookUpRun(ctx, t)
		if err != nil {
			return nodesocket.Admission{}, fmt.Errorf("job %d: %w", t.Job, err)
		}
		j.mu.Lock()
		j.awaitsProtection = false
		j.mu.Unlock()
		if reason != "" {
			return nodesocket.Admission{Mode: nodesocket.Plain, Reason: reason}, nil
		}
	}
	noteLookedUp()
	admission, err := j.admitTask(ctx, t)
	if err != nil {
		return nodesocket.Admission{}, fmt.Errorf("job %d: %w", t.Job, err)
	}
	return admission, nil
}

// errForgottenStart refuses a task of a run that slurmctld has forgotten: it died right after it had started the run, and
// shows the job without nodes now. Slurm ends such a run, and starts the job again.
var errForgottenStart = errors.New("slurmctld has forgotten this start: it shows the job on no node")

// lookUpRun looks the job's run up in Slurm. plain is the reason why the job is not protected, or
// "". Caller holds j.capsulesMu.
func (j *job) lookUpRun(ctx context.Context, t nodesocket.Join) (plain string, err error) {
	if t.Step == records.BatchProgram && j.run.Snapshot().State == runs.GivenUp {
		j.setState(runs.Unknown) // A held job that was repaired and released may be given up again.
	}
	s, err := j.showPatiently(ctx)
	if err != nil {
		return "", err
	}
	if s.UID != t.UID {
		return "", fmt.Errorf("its user is %d, not %d", s.UID, t.UID)
	}
	if len(s.Nodes) == 0 {
		return "", errForgottenStart
	}
	s.Restarts = runOfTask(s, t)
	switch {
	case !s.Batch:
		return "only batch jobs are protected: Slurm can requeue no other", nil
	case !s.Requeue:
		return "the job was submitted with --no-requeue, so there is nothing to be protected for", nil
	case s.HetJob != 0:
		return "heterogeneous jobs are not protected: ask for nodes of a single kind", nil
	}
	if err := j.removeEarlierRun(ctx, s); err != nil {
		return "", err
	}
	rec, before, err := j.loadOrCreateRecord(ctx, s, t)
	if err != nil {
		return "", err
	}
	point, err := j.openNewestCheckpoint(ctx, s, rec, before != interruptedRun || rec.ScriptUnbegun, t.Step == records.BatchProgram)
	if err != nil {
		return "", err
	}
	snap := j.run.Snapshot()
	isNewRun := snap.Record == nil || snap.Number != s.Restarts
	lost, anew, startLine := "", "", ""
	if isNewRun && s.Restarts > 0 && !rec.ScriptUnbegun {
		lost, anew, startLine = describeNextRun(j, s, point, rec, before)
	}
	j.beginRun(rec, s.Restarts, s.Nodes, point)
	if isNewRun && j.leaderNode() == j.c.Node {
		runFence{j}.noteBegunRun()
		started := makeStartEvent(s.Restarts, s.Nodes, point, lost, rec.ScriptUnbegun)
		started.AfterEnd = before == endedRun
		j.report.WriteEvent(started)
		switch {
		case point == nil && anew == "" && s.Restarts > 0 && rec.ScriptUnbegun: // other runs without a checkpoint have a text
			j.report.EndWait()
		case anew != "":
			j.report.SetComment(anew)
			j.report.SetStartLine(startLine)
		}
	}
	return "", nil
}

// removeEarlierRun removes the capsules and state of an earlier run from this node. They exist only if this node missed
// the end of that run.
func (j *job) removeEarlierRun(ctx context.Context, s *slurm.Job) error {
	snap := j.run.Snapshot()
	old := snap.Record != nil && snap.Number != s.Restarts
	if !old {
		return nil
	}
	err := j.removeRun(ctx)
	j.setState(runs.Unknown)
	return err
}

// setState makes the run enter a state. A transition that is not allowed is logged, and the state stays.
func (j *job) setState(next runs.State) {
	if j.run.Snapshot().State == next {
		return
	}
	if err := j.run.EnterState(next); err != nil {
		j.log.Info("the state of the run stays", "why", err)
	}
}

// beginRun notes the run that begins on this node.
func (j *job) beginRun(rec *records.Record, run int, nodes []string, point *runs.ResumePoint) {
	was := j.run.Snapshot()
	j.run.BeginNext(rec, run, nodes, point)
	j.termination.ForgetEarlierRun()
	if was.Number != run {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.foundByCRIU = nil
	}
}

// captureEnv are variables that make programs avoid features which cannot be captured and which
// the programs do not need.
var captureEnv = []string{
	"UV_USE_IO_URING", "0", // libuv: Node.js and others
	"UCX_VFS_ENABLE", "n", // UCX, for debugging: watches a folder of the node's that other nodes may not have
}

// mpiEnv returns the variable by which sing-srun knows that steps use MPI without being asked to.
func (c *Conductor) mpiEnv() []string {
	if !srun.ServesMPI(c.MPIDefault) {
		return nil
	}
	return []string{srun.MPIDefaultVariable, c.MPIDefault}
}

// taskPlacement is where a task of a run belongs, and how its program begins.
type taskPlacement struct {
	program string
	capsule int
	mode    nodesocket.Mode
	status  syscall.WaitStatus // of a program that had ended before the checkpoint: mode is Finished
}

// findPlacement finds the capsule of a task on this node, and whether its program is restored from the run's
// checkpoint.
func findPlacement(snap runs.Snapshot, node string, t nodesocket.Join) (taskPlacement, error) {
	point, where := snap.Point, snap.Placement
	if t.UID != snap.Record.UID {
		return taskPlacement{}, fmt.Errorf("its user is %d, not %d", snap.Record.UID, t.UID)
	}
	at := taskPlacement{program: records.BatchProgram, mode: nodesocket.Fresh}
	if t.Step != records.BatchProgram {
		at.program = records.TaskName(t.Key, t.Step, t.Task)
	}
	here, err := where.CapsulesOn(node)
	if err != nil {
		return at, err
	}
	if len(here) == 0 {
		return at, fmt.Errorf("no capsule of the job is on %s: the job began on %d nodes and now has %d", node, len(where.FirstRun), len(where.ThisRun))
	}
	at.capsule = here[0]
	if point != nil {
		if m := point.Meta.CapsuleOf(at.program); m != nil {
			if !slices.Contains(here, m.Index) {
				return at, fmt.Errorf("program %s belongs on %s", at.program, where.NodeOf(m.Index))
			}
			at.capsule = m.Index
			if !slices.Contains(m.NotBegun, at.program) {
				at.mode = nodesocket.Restore
			}
			if status, ended := m.Ended[at.program]; ended {
				at.mode, at.status = nodesocket.Finished, status
				return at, nil
			}
		}
	}
	if at.program == records.BatchProgram && at.capsule != 0 {
		return at, fmt.Errorf("the batch script is on %s, which has no capsule 0", node)
	}
	return at, nil
}

// restoreForScript takes the steps of a restore that come before the batch script is admitted. An error ends the run,
// unless the script's task is gone. Caller holds j.capsulesMu.
func (j *job) restoreForScript(ctx context.Context, snap runs.Snapshot) error {
	_, err := j.restore.takeSteps(ctx, snap, scriptStarts)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("restore checkpoint %d: %w", snap.Point.ID.Number, err)
	if ctx.Err() != nil { // The task is gone, which is no reason to hold the job.
		return err
	}
	return errors.Join(err, j.failed.giveUpRun(err))
}

// admitTask lets a task into its capsule, which is made if there is none yet, and returns how its warden joins the capsule.
// Caller holds j.capsulesMu.
func (j *job) admitTask(ctx context.Context, t nodesocket.Join) (nodesocket.Admission, error) {
	snap := j.run.Snapshot()
	at, err := findPlacement(snap, j.c.Node, t)
	if err != nil {
		return nodesocket.Admission{}, err
	}
	if at.mode == nodesocket.Finished {
		j.recordFinishedTask(at.capsule, t, at.program, at.status)
		return nodesocket.Admission{Mode: nodesocket.Finished, Status: at.status}, nil
	}
	if at.program == records.BatchProgram && snap.Point != nil {
		if err := j.restoreForScript(ctx, snap); err != nil {
			return nodesocket.Admission{}, err
		}
	}
	lc, err := j.ensureCapsule(ctx, at.capsule, t)
	if err != nil {
		return nodesocket.Admission{}, err
	}
	if err := lc.makeSpoolFolder(ctx, t); err != nil {
		return nodesocket.Admission{}, err
	}
	container, err := lc.showContainer(ctx, t, at)
	if err != nil {
		return nodesocket.Admission{}, err
	}
	first, err := j.noteTask(lc, t, &at)
	if err != nil {
		return nodesocket.Admission{}, err
	}
	if at.mode == nodesocket.Restore {
		container = nil // A restored program has its root already.
	}
	ns, err := lc.capsule.Namespaces()
	if err != nil {
		return nodesocket.Admission{}, err
	}
	if at.program == records.BatchProgram {
		runFence{j}.noteBegunScript()
		j.startPeriodic()
	}
	return nodesocket.Admission{
		Mode: at.mode, Name: at.program, Namespaces: ns, Container: container, Kit: j.c.capsuleKitDir(lc),
		Env: slices.Concat([]string{files.Env, filepath.Join(j.c.ListDir, files.ListName)}, captureEnv, j.c.mpiEnv(), j.c.deviceEnv(lc), outsideOf(lc).clientEnv(), snap.Placement.NodeEnv(at.capsule, first)),
	}, nil
}

// noteTask writes a task's warden into the capsule's note, and returns the environment of the job's first start. A
// program that was restored before in this run begins anew: then at.mode becomes Fresh. noteTask returns an
// inProgressError while a checkpoint is in progress.
func (j *job) noteTask(lc *localCapsule, t nodesocket.Join, at *taskPlacement) (first map[string]string, err error) {
	lc.enterJobCgroup(t.PID)
	task, err := processes.NewProcess(t.PID)
	if err == nil && t.Alive != nil {
		err = t.Alive() // else the PID may be another process's
	}
	if err != nil {
		return nil, err
	}
	note := func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		if at.mode == nodesocket.Restore && !slices.Contains(lc.note.ProgramsToRestore, at.program) {
			at.mode = nodesocket.Fresh // The program was restored before in this run, and its step runs again.
		}
		lc.note.setWarden(at.program, task)
		lc.setTaskCount(t)
		first = lc.note.FirstEnv
		lc.saveNote()
	}
	if at.program == records.BatchProgram {
		note()
	} else if m := j.participant.runUnlessMember(note); m != nil {
		return nil, &inProgressError{m}
	}
	return first, nil
}
