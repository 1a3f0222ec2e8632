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

	"golang.org/x/sync/errgroup"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/criu"
	"github.com/singularity-slurm/singularity-slurm/proxyd/overlay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// The order of a restore:
//
//	leader                                         every node
//	──────                                         ──────────
//	the batch step's task asks for its place (join.go)
//	all capsules are made on their nodes  ───────► files put back, network locked (make_capsules.go)
//	the batch script is restored and runs on
//	its sing-sruns ask again: the sruns start (sruns.go)
//	                                               each task waits, and is restored
//	                                         ◄───  nodeRestored: all programs here are restored
//	asks all nodes for unrestored programs ──────►
//	none: unlock the network             ────────► the job runs on

// restoreWaiting restores a program whose warden waits.
func (lc *localCapsule) restoreWaiting(ctx context.Context, program string) {
	j := lc.j
	began := time.Now()
	j.log.Debug("phase begins", "phase", restoreStep, "program", program)
	err := lc.restoreProgram(ctx, program)
	if err == nil {
		j.log.Info("program restored", "capsule", lc.index, "program", program, "took", time.Since(began))
		err = j.reportRestored(ctx)
	}
	if err != nil {
		j.restoreFailed(ctx, fmt.Errorf("restore program %s on %s: %w", program, j.c.Node, err))
	}
}

// reportRestoredByPredecessor tells the leader that all programs of this node are restored, if
// this daemon's predecessor died before it could do so.
func (j *job) reportRestoredByPredecessor(ctx context.Context) {
	if err := j.reportRestored(ctx); err != nil {
		j.restoreFailed(ctx, fmt.Errorf("restore on %s: %w", j.c.Node, err))
	}
}

// restoreFailed gives the run up, unless the daemon, the capsule or the run is ending anyway.
func (j *job) restoreFailed(ctx context.Context, err error) {
	if ctx.Err() != nil || errors.Is(err, capsule.ErrStale) {
		return
	}
	if j.hasRunEnded(ctx) {
		j.log.Info("a restore was cut short by the end of its run", "error", err)
		return
	}
	j.log.Error("restore failed", "error", err)
	j.logCRIU(err)
	if up := j.giveUpRun(err); up != nil {
		j.log.Error("cannot hold the job", "error", up)
	}
}

// hasRunEnded tells whether Slurm has ended this run already. Then a failed restore is no reason
// to hold the job.
func (j *job) hasRunEnded(ctx context.Context) bool {
	s, err := j.c.Slurm.Show(ctx, jobName(j.id))
	if errors.Is(err, slurm.ErrNoJob) {
		return true
	}
	return err == nil && (s.Restarts > j.run.snapshot().number || !s.Runs())
}

// logCRIU logs the path of CRIU's own log, for an administrator.
func (j *job) logCRIU(err error) {
	var failed *criu.Error
	if errors.As(err, &failed) && failed.Log != "" {
		j.log.Error("criu's log", "log", failed.Log)
	}
}

func (lc *localCapsule) restoreProgram(ctx context.Context, program string) error {
	j := lc.j
	snap := j.run.snapshot()
	point, rec := snap.point, snap.rec
	j.mu.Lock()
	left, renamed := slices.Contains(lc.note.ProgramsToRestore, program), lc.note.Renamed
	j.mu.Unlock()
	if point == nil || !left {
		return errors.New("the program is in no checkpoint that is being restored")
	}
	m := point.meta.Capsule(lc.index)
	if m == nil || m.Program(program) == nil {
		return fmt.Errorf("checkpoint %d has no such program", point.id.Number)
	}
	p := m.Program(program)
	group, err := programCgroup(ctx, lc.capsule, program)
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
	// The program stays frozen until the capsule's init knows its PID, because the program may
	// end at once.
	if err := freezeCgroup(group); err != nil {
		return err
	}
	err = criu.Restore(ctx, p.Image, criu.Program{
		Init: lc.capsule.PID(), PID: p.PID, UID: rec.UID, GID: rec.GID, Groups: m.Groups, Cgroup: group, Renamed: renamed,
	}, [3]*os.File(stdio), streamSource{point.reader, m, program + "/"})
	if err != nil {
		return err
	}
	if err := lc.resetOutside(capsule.Program{Name: program, Cgroup: group}); err != nil {
		return err
	}
	if err := lc.adoptProcesses(ctx, m, group); err != nil {
		return err
	}
	if program == records.BatchProgram {
		lc.saveRunEnv()
		j.c.startBackground(j.awaitSteps)
	}
	if err := lc.unlinkAfterLast(program); err != nil {
		return err
	}
	if err := lc.capsule.Restored(ctx, program, p.PID, p.First); err != nil {
		return err
	}
	if err := keepLastPID(ctx, lc.capsule, m.LastPID); err != nil {
		return err
	}
	if err := lc.capsule.Thaw(ctx, program); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	lc.note.ProgramsToRestore = slices.DeleteFunc(lc.note.ProgramsToRestore, func(s string) bool { return s == program })
	lc.saveNote()
	return nil
}

// unlinkAfterLast deletes the names of removed files when CRIU has restored the last program of
// a capsule.
func (lc *localCapsule) unlinkAfterLast(program string) error {
	j := lc.j
	j.mu.Lock()
	lc.opened[program] = true
	last := !slices.ContainsFunc(lc.note.ProgramsToRestore, func(s string) bool { return !lc.opened[s] })
	j.mu.Unlock()
	if !last {
		return nil
	}
	return lc.unlinkRemoved()
}

// keepLastPID makes the capsule's PIDs continue after last. CRIU resets the counter at a restore
// (seen with 4.2), and a program restored later would then find its PIDs taken.
func keepLastPID(ctx context.Context, c *capsule.Capsule, last int) error {
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

// stepsDeadline bounds the time from the restore of the batch script to the restore of the last
// task. The steps' sruns start again meanwhile; nothing in Slurm delays them longer.
const stepsDeadline = 10 * time.Minute

// awaitSteps gives the run up if the tasks of its steps do not come back in time.
func (j *job) awaitSteps(ctx context.Context) {
	snap := j.run.snapshot()
	point, run := snap.point, snap.number
	select {
	case <-ctx.Done():
		return
	case <-time.After(stepsDeadline):
	}
	left, err := j.unrestoredPrograms(ctx, point)
	now := j.run.snapshot()
	if err != nil || len(left) == 0 || now.point != point || now.number != run {
		return
	}
	err = fmt.Errorf("restore checkpoint %d: no task came for %s", point.id.Number, joinNames(left))
	if up := j.giveUpRun(err); up != nil {
		j.log.Error("cannot hold the job", "error", up)
	}
}

// reportRestored tells the leader when all programs of this node are restored.
func (j *job) reportRestored(ctx context.Context) error {
	left, err := j.unrestoredHere(ctx, store.ID{}, empty{})
	if err != nil || len(left) > 0 {
		return err
	}
	return j.c.callNodeRetrying(ctx, restoreCallTimeout, j.leaderNode(), j.id, callNodeRestored, empty{}, nil)
}

// unrestoredHere returns the programs of this node that are not restored yet, including those of
// capsules that are not made yet.
func (j *job) unrestoredHere(context.Context, store.ID, empty) ([]string, error) {
	snap := j.run.snapshot()
	j.mu.Lock()
	defer j.mu.Unlock()
	var left []string
	for _, lc := range j.capsules {
		left = append(left, lc.note.ProgramsToRestore...)
	}
	if snap.point == nil {
		return left, nil
	}
	for _, m := range snap.point.meta.Capsules {
		if snap.placement.NodeOf(m.Index) != j.c.Node || j.capsules[m.Index] != nil {
			continue
		}
		for _, p := range m.Programs {
			left = append(left, p.Name)
		}
	}
	return left, nil
}

// nodeRestored is called on the leader when a node has restored all its programs. After the last
// node, the network is unlocked: earlier packets would reach programs that are not restored yet,
// and the kernel would answer with a reset.
func (j *job) nodeRestored(ctx context.Context, _ store.ID, _ empty) (empty, error) {
	snap := j.run.snapshot()
	point, where := snap.point, snap.placement
	if point == nil {
		return empty{}, nil
	}
	if opened, err := j.completeRestore(ctx, point, where); err != nil || !opened {
		return empty{}, err
	}
	j.log.Info("job restored", "checkpoint", point.id.Number)
	j.addEvent(records.EventRestored, where.Today, fmt.Sprintf("from checkpoint %d", point.id.Number)+point.lostWork)
	j.setComment(fmt.Sprintf("restored from checkpoint %d on %s", point.id.Number, joinNames(where.Today)) + point.lostWork + point.lostNewer)
	return empty{}, nil
}

// completeRestore lets the job run on if all programs are restored, and tells whether this call
// did so: two nodes may report at the same time.
func (j *job) completeRestore(ctx context.Context, point *resumePoint, where records.Placement) (bool, error) {
	j.completeMu.Lock()
	defer j.completeMu.Unlock()
	if now := j.run.snapshot(); now.was(runRunning) || now.point != point {
		return false, nil
	}
	if left, err := j.unrestoredPrograms(ctx, point); err != nil || len(left) > 0 {
		return false, err
	}
	if err := j.reconnectDevices(ctx, point, where); err != nil {
		return false, err
	}
	j.log.Debug("phase begins", "phase", callUnlock)
	g, gctx := errgroup.WithContext(ctx)
	for node := range point.nodes(where) {
		if node != j.c.Node {
			g.Go(func() error {
				return j.c.callNodeRetrying(gctx, restoreCallTimeout, node, j.id, callUnlock, empty{}, nil)
			})
		}
	}
	if err := g.Wait(); err != nil {
		return false, err
	}
	// This node's own network last: a successor of this daemon recognizes by a locked network
	// that the restore is not complete.
	if _, err := j.unlockHere(ctx, store.ID{}, empty{}); err != nil {
		return false, err
	}
	return true, j.markRestored()
}

// markRestored notes that all programs are restored, and resets the count of unrestored runs.
func (j *job) markRestored() error {
	j.setState(runRunning)
	return j.run.changeRecord(j.c.records.Save, func(rec *records.Record) bool {
		changed := rec.UnrestoredRuns != 0
		rec.UnrestoredRuns = 0
		return changed
	})
}

// nodes returns the nodes of this run that have capsules of the checkpoint.
func (p *resumePoint) nodes(where records.Placement) map[string]bool {
	nodes := map[string]bool{}
	for _, m := range p.meta.Capsules {
		nodes[where.NodeOf(m.Index)] = true
	}
	return nodes
}

// unrestoredPrograms asks all nodes for the programs that are not restored yet.
func (j *job) unrestoredPrograms(ctx context.Context, point *resumePoint) ([]string, error) {
	where := j.run.snapshot().placement
	var mu sync.Mutex
	var left []string
	g, ctx := errgroup.WithContext(ctx)
	for node := range point.nodes(where) {
		g.Go(func() error {
			var there []string
			err := j.c.callNodeRetrying(ctx, restoreCallTimeout, node, j.id, callUnrestored, empty{}, &there)
			mu.Lock()
			defer mu.Unlock()
			left = append(left, there...)
			return err
		})
	}
	return left, g.Wait()
}

// isNetworkLocked tells whether the network of a capsule on this node is locked until the restore
// is complete.
func (j *job) isNetworkLocked() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, lc := range j.capsules {
		if lc.note.NetworkLocked {
			return true
		}
	}
	return false
}

// unlockHere unlocks the network of this node's capsules and lets their devices work. It may be
// called twice.
func (j *job) unlockHere(ctx context.Context, _ store.ID, _ empty) (empty, error) {
	if j.isGivenUp() {
		return empty{}, errGivenUp
	}
	var errs []error
	for _, lc := range j.localCapsules() {
		err := overlay.Unlock(lc.capsule.PID())
		if err == nil && lc.devices != nil {
			err = lc.resumeDevices(ctx)
		}
		if err == nil {
			j.mu.Lock()
			lc.note.NetworkLocked = false
			lc.saveNote()
			j.mu.Unlock()
		}
		errs = append(errs, err)
	}
	return empty{}, errors.Join(errs...)
}
