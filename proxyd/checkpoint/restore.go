// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/queues"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/reports"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/criu"
	"github.com/singularity-slurm/singularity-slurm/proxyd/messagequeue"
	"github.com/singularity-slurm/singularity-slurm/proxyd/overlay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// restoreWaiting restores a program where its warden waits.
func (lc *localCapsule) restoreWaiting(ctx context.Context, program string) {
	j := lc.j
	began := time.Now()
	j.log.Debug("step begins", "step", stepRestoreProgram, "program", program)
	err := withTask(ctx, lc.capsule, program, lc.restoreProgram(ctx, program))
	if err == nil {
		j.log.Info("program restored", "capsule", lc.index, "program", program, "took", time.Since(began))
		err = j.restore.reportRestored(ctx)
	}
	if err != nil {
		j.restore.giveUpRestore(ctx, fmt.Errorf("restore program %s on %s: %w", program, j.c.Node, err))
	}
}

// withTask adds to the error of a program's restore that the program's task has ended, if that is so: the error itself may
// be any that follows from it, for example that a cgroup of the task is gone.
func withTask(ctx context.Context, c *capsule.Capsule, program string, err error) error {
	if err == nil {
		return nil
	}
	all, asked := c.Programs(context.WithoutCancel(ctx))
	if asked != nil || slices.ContainsFunc(all, func(p capsule.Program) bool { return p.Name == program && p.Warden }) {
		return err
	}
	return fmt.Errorf("%w: %w", errTaskEnded, err)
}

// reportAfterRestart tells the leader that all programs of this node are restored, if
// this daemon's predecessor died before it could do so.
func (r *restore) reportAfterRestart(ctx context.Context) {
	j := r.j
	if err := r.reportRestored(ctx); err != nil {
		r.giveUpRestore(ctx, fmt.Errorf("restore on %s: %w", j.c.Node, err))
	}
}

// giveUpRestore gives the run up, unless the daemon, the capsule or the run is ending anyway.
func (r *restore) giveUpRestore(ctx context.Context, err error) {
	j := r.j
	if ctx.Err() != nil || errors.Is(err, capsule.ErrStale) {
		return
	}
	if j.hasRunEnded(ctx) {
		j.log.Info("a restore was cut short by the end of its run", "error", err)
		return
	}
	j.log.Error("restore failed", "error", err)
	j.logCRIU(err)
	if up := j.failed.giveUpRun(err); up != nil {
		j.log.Error("cannot hold the job", "error", up)
	}
}

// hasRunEnded tells whether Slurm has ended this run already. Then a failed restore is no reason
// to hold the job.
func (j *job) hasRunEnded(ctx context.Context) bool {
	s, err := j.c.Slurm.Show(ctx, slurm.JobName(j.id))
	if errors.Is(err, slurm.ErrNoJob) {
		return true
	}
	return err == nil && (s.Restarts > j.run.Snapshot().Number || !s.Runs())
}

// logCRIU logs the path of CRIU's own log, for an administrator.
func (j *job) logCRIU(err error) {
	var failed *criu.Error
	if errors.As(err, &failed) && failed.Log != "" {
		j.log.Error("criu's log", "log", failed.Log)
	}
}

// programRestore is the restore of a program of a capsule: its entry in the checkpoint, and the place where it is to
// run.
type programRestore struct {
	lc      *localCapsule
	rec     *records.Record
	point   *runs.ResumePoint
	meta    *records.CapsuleMeta // of the capsule
	program *records.ProgramMeta
	group   string            // cgroup of the program; may be ""
	renamed map[string]string // see criu.Program
}

// restoreProgram restores a program where its warden waits, and lets the program run. After an error the caller gives the run up.
func (lc *localCapsule) restoreProgram(ctx context.Context, program string) error {
	r, err := findRestore(ctx, lc, program)
	if err != nil {
		return err
	}
	stdio, err := lc.capsule.Stdio(ctx, program)
	if err != nil {
		return err
	}
	defer func() {
		for _, f := range stdio {
			f.Close()
		}
	}()
	if len(stdio) != 3 {
		return fmt.Errorf("the warden passed %d descriptors, want 3", len(stdio))
	}
	queueState, err := queues.Load(r.point.Reader, r.meta, r.program)
	if err != nil {
		return err
	}
	defer lc.restoring.waitForTurn(r.program.Image.RestoredByRoot())()
	if err := r.runCRIU(ctx, [3]*os.File(stdio), queueState); err != nil {
		return err
	}
	if err := r.completeProgram(ctx); err != nil {
		return err
	}
	return r.thawRestoredProgram(ctx)
}

// findRestore returns the restore of a program that is still to be restored.
func findRestore(ctx context.Context, lc *localCapsule, program string) (*programRestore, error) {
	j := lc.j
	snap := j.run.Snapshot()
	r := &programRestore{lc: lc, rec: snap.Record, point: snap.Point}
	j.mu.Lock()
	left := slices.Contains(lc.note.ProgramsToRestore, program)
	r.renamed = lc.note.Renamed
	j.mu.Unlock()
	if r.point == nil || !left {
		return nil, errors.New("the program is in no checkpoint that is being restored")
	}
	r.meta = r.point.Meta.Capsule(lc.index)
	if r.meta == nil || r.meta.Program(program) == nil {
		return nil, fmt.Errorf("checkpoint %d has no such program", r.point.ID.Number)
	}
	r.program = r.meta.Program(program)
	var err error
	r.group, err = programCgroup(ctx, lc.capsule, program)
	return r, err
}

// runCRIU makes the program's processes and gives back the standard input that they had not read. The program stays frozen
// until the capsule's init knows its PID, because the program may end at once.
func (r *programRestore) runCRIU(ctx context.Context, stdio [3]*os.File, queueState *messagequeue.State) error {
	p, rec := r.program, r.rec
	if err := freezeCgroup(r.group); err != nil {
		return err
	}
	err := criu.Restore(ctx, p.Image, criu.Program{
		Init: r.lc.capsule.PID(), PID: p.PID, UID: rec.UID, GID: rec.GID, Groups: r.meta.Groups, Cgroup: r.group, Renamed: r.renamed, Queues: queueState,
		AsRoot: r.lc.j.c.RestoreAsRoot,
	}, stdio, upload.StreamSource{Reader: r.point.Reader, Capsule: r.meta, Prefix: p.Name + "/"})
	if err != nil {
		return err
	}
	names, err := criu.StdioOf(stdio)
	if err == nil {
		err = inputOf(r.lc, capsule.Program{Name: p.Name, Stdio: names}, 0).restoreInput(ctx, upload.StreamSource{Reader: r.point.Reader, Capsule: r.meta}, p)
	}
	if err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	return nil
}

// completeProgram gives the frozen processes of the program the state that CRIU does not restore, and resets their
// connections to outside.
func (r *programRestore) completeProgram(ctx context.Context) error {
	lc, name := r.lc, r.program.Name
	restored := capsule.Program{Name: name, Cgroup: r.group}
	if err := showOldSocketInodes(ctx, lc, restored, r.meta.SocketInodes); err != nil {
		return err
	}
	if err := lc.resetOutside(ctx, restored); err != nil {
		return err
	}
	outsideOf(lc).reportResetUnix(name, r.program.Image.Program.Outside)
	if err := lc.adoptProcesses(ctx, r.meta, r.group); err != nil {
		return err
	}
	if name == records.BatchProgram {
		lc.saveRunEnv()
		lc.j.c.startBackground(lc.j.restore.awaitSteps)
	}
	return lc.unlinkAfterLast(name)
}

// thawRestoredProgram hands the program over to the capsule's init, thaws it, and notes that it is restored.
func (r *programRestore) thawRestoredProgram(ctx context.Context) error {
	lc, j, p := r.lc, r.lc.j, r.program
	if err := lc.capsule.Restored(ctx, p.Name, p.PID, p.First); err != nil {
		return err
	}
	if err := raiseLastPID(ctx, lc.capsule, r.meta.LastPID); err != nil {
		return err
	}
	if err := j.restore.unlockLoopback(lc); err != nil {
		return err
	}
	if err := lc.capsule.Thaw(ctx, p.Name); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	lc.note.ProgramsToRestore = slices.DeleteFunc(lc.note.ProgramsToRestore, func(s string) bool { return s == p.Name })
	lc.saveNote()
	return nil
}

// unlockLoopback lets the programs of a capsule reach each other once CRIU has restored all of them. With a locked
// network, their packets to each other would be lost until the whole job is restored: TCP would send them again only
// later, when timers have gone off that should not, and UDP never.
func (r *restore) unlockLoopback(lc *localCapsule) error {
	r.j.mu.Lock()
	can := lc.note.NetworkLocked && lc.hasCRIURestoredAll()
	r.j.mu.Unlock()
	if !can {
		return nil
	}
	return overlay.UnlockLoopback(lc.capsule.PID())
}

// hasCRIURestoredAll tells whether CRIU has restored all programs of a capsule, of which some may not run yet. Caller holds job.mu.
func (lc *localCapsule) hasCRIURestoredAll() bool {
	return !slices.ContainsFunc(lc.note.ProgramsToRestore, func(s string) bool { return !lc.criuRestored[s] })
}

// restoreTurns has the programs of a capsule restored side by side, except while root restores a
// program: a program that runs already could lead root elsewhere by a link, and package criu
// refuses a restore by root only where such a program is there when the restore begins.
type restoreTurns struct{ programs sync.RWMutex }

// waitForTurn waits until a program may be restored, and returns a function that ends the turn.
func (r *restoreTurns) waitForTurn(byRoot bool) (end func()) {
	if byRoot {
		r.programs.Lock()
		return r.programs.Unlock
	}
	r.programs.RLock()
	return r.programs.RUnlock
}

// unlinkAfterLast deletes the names of removed files when CRIU has restored the last program of
// a capsule.
func (lc *localCapsule) unlinkAfterLast(program string) error {
	j := lc.j
	j.mu.Lock()
	lc.criuRestored[program] = true
	last := lc.hasCRIURestoredAll()
	j.mu.Unlock()
	if !last {
		return nil
	}
	return lc.unlinkRemoved()
}

// raiseLastPID makes the capsule's PIDs continue after last. CRIU resets the counter at a restore
// (seen with 4.2), and a program restored later would then find its PIDs taken.
func raiseLastPID(ctx context.Context, c *capsule.Capsule, last int) error {
	now, err := c.LastPID(ctx)
	if err != nil || now >= last {
		return err
	}
	return c.LoadLastPID(ctx, last)
}

// freezeCgroup freezes the cgroup of a program before its restore. Without a cgroup the program
// runs at once.
func freezeCgroup(group string) error {
	if group == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(group, "cgroup.freeze"), []byte("1"), 0)
}

// programCgroup returns the cgroup of a program that waits for its restore.
func programCgroup(ctx context.Context, c *capsule.Capsule, program string) (string, error) {
	all, err := c.Programs(ctx)
	if err != nil {
		return "", err
	}
	for _, p := range all {
		if p.Name == program {
			return p.Cgroup, nil
		}
	}
	return "", errNoProgram
}

// stepsDeadline bounds the time from the restore of the batch script to the restore of the last task. The steps' sruns
// start again meanwhile; no timer of Slurm delays them longer.
const stepsDeadline = 10 * time.Minute

// awaitSteps gives the run up if the tasks of its steps do not come back in time.
func (r *restore) awaitSteps(ctx context.Context) {
	j := r.j
	snap := j.run.Snapshot()
	point, run := snap.Point, snap.Number
	select {
	case <-ctx.Done():
		return
	case <-time.After(stepsDeadline):
	}
	left, err := r.unrestoredPrograms(ctx, point)
	now := j.run.Snapshot()
	if err != nil || len(left) == 0 || now.Point != point || now.Number != run {
		return
	}
	err = fmt.Errorf("restore checkpoint %d: %w %s", point.ID.Number, errTasksLate, reports.JoinNames(left))
	if up := j.failed.giveUpRun(err); up != nil {
		j.log.Error("cannot hold the job", "error", up)
	}
}

// reportRestored tells the leader when all programs of this node are restored.
func (r *restore) reportRestored(ctx context.Context) error {
	j := r.j
	left, err := r.unrestoredHere(ctx, store.ID{}, calls.Empty{})
	if err != nil || len(left) > 0 {
		return err
	}
	_, err = callNodeRetrying(ctx, j.c, restoreCallTimeout, j.leaderNode(), j.id, calls.NodeRestored, calls.Empty{})
	return err
}
