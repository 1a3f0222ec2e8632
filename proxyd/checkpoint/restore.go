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
	"github.com/singularity-slurm/singularity-slurm/proxyd/criu"
	"github.com/singularity-slurm/singularity-slurm/proxyd/overlay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// A restore is a checkpoint read upwards:
//
//	leader                                         every node
//	──────                                         ──────────
//	the batch step's task asks for its place (join.go)
//	all capsules are made on their nodes  ───────► files put back, network shut (raise.go)
//	the batch script is restored, and goes on
//	its sing-sruns ask again: the sruns start (sruns.go)
//	                                               each task waits, and is restored
//	                                         ◄───  restored: none is left here
//	asks all nodes whether one is left  ─────────►
//	none is: let packets pass  ──────────────────► the job is whole

// restore brings back one program, whose warden waits.
func (j *job) restore(ctx context.Context, h *held, program string) {
	began := time.Now()
	j.log.Debug("phase begins", "phase", restoreStep, "program", program)
	err := j.restoreProgram(ctx, h, program)
	if err == nil {
		j.log.Info("program restored", "capsule", h.index, "program", program, "took", time.Since(began))
		err = j.settled(ctx)
	}
	if err != nil {
		j.failed(ctx, fmt.Errorf("restore program %s on %s: %w", program, j.c.Node, err))
	}
}

// settleRestore is for a daemon whose predecessor died when all programs of this node were
// back and the leader did not know.
func (j *job) settleRestore(ctx context.Context) {
	if err := j.settled(ctx); err != nil {
		j.failed(ctx, fmt.Errorf("restore on %s: %w", j.c.Node, err))
	}
}

// failed gives the run up, unless the daemon, the capsule or the run goes anyway.
func (j *job) failed(ctx context.Context, err error) {
	if ctx.Err() != nil || errors.Is(err, capsule.ErrStale) {
		return
	}
	if j.overtaken(ctx) {
		j.log.Info("a restore was cut short by the end of its run", "error", err)
		return
	}
	j.log.Error("restore failed", "error", err)
	j.logCriu(err)
	if up := j.giveUp(err); up != nil {
		j.log.Error("hold the job", "error", up)
	}
}

// overtaken says that Slurm has ended this run already: what fails then is no reason to
// hold the job.
func (j *job) overtaken(ctx context.Context) bool {
	s, err := j.c.Slurm.Show(ctx, name(j.id))
	if errors.Is(err, slurm.ErrNoJob) {
		return true
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return err == nil && (s.Restarts > j.run || !s.Runs())
}

// logCriu keeps what CRIU had to say, for an administrator.
func (j *job) logCriu(err error) {
	var failed *criu.Error
	if errors.As(err, &failed) && failed.Log != "" {
		j.log.Error("criu's log", "log", failed.Log)
	}
}

func (j *job) restoreProgram(ctx context.Context, h *held, program string) error {
	j.mu.Lock()
	from, rec, left := j.from, j.rec, slices.Contains(h.note.Left, program)
	j.mu.Unlock()
	if from == nil || !left {
		return errors.New("it is in no checkpoint that is being restored")
	}
	m := from.meta.capsule(h.index)
	if m == nil || m.program(program) == nil {
		return fmt.Errorf("checkpoint %d has no such program", from.id.Number)
	}
	p := m.program(program)
	group, err := waitingIn(ctx, h.c, program)
	if err != nil {
		return err
	}
	stdio, err := h.c.Stdio(ctx, program)
	if err != nil {
		return err
	}
	defer func() {
		for _, f := range stdio {
			f.Close()
		}
	}()
	if len(stdio) != 3 {
		return fmt.Errorf("its warden gave %d descriptors", len(stdio))
	}
	// It stands still until init knows it: it may be about to end.
	if err := holdStill(group); err != nil {
		return err
	}
	err = criu.Restore(ctx, p.Image, criu.Program{
		Init: h.c.PID(), PID: p.PID, UID: rec.UID, GID: rec.GID, Cgroup: group,
	}, [3]*os.File(stdio), streamSource{from.reader, m, program + "/"})
	if err != nil {
		return err
	}
	if err := j.adoptProcesses(ctx, h, m, group); err != nil {
		return err
	}
	if program == batch {
		j.noteEnv(h)
		j.c.spawn(j.awaitRest)
	}
	if err := h.c.Restored(ctx, program, p.PID, p.First); err != nil {
		return err
	}
	if err := countOn(ctx, h.c, m.LastPID); err != nil {
		return err
	}
	if err := h.c.Thaw(ctx, program); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	h.note.Left = slices.DeleteFunc(h.note.Left, func(s string) bool { return s == program })
	j.save(h)
	return nil
}

// countOn makes a capsule go on counting PIDs where it stood: a program that is restored
// later would find its own taken. After a restore by CRIU it counts from the beginning (seen
// with 4.2).
func countOn(ctx context.Context, c *capsule.Capsule, last int) error {
	now, err := c.LastPID(ctx)
	if err != nil || now >= last {
		return err
	}
	return c.LoadLastPID(ctx, last)
}

// holdStill freezes the cgroup of a program that is about to be restored. Without one the
// program runs at once.
func holdStill(group string) error {
	if group == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(group, "cgroup.freeze"), []byte("1"), 0)
}

// waitingIn returns the cgroup that has been made for a program which is to be restored.
func waitingIn(ctx context.Context, c *capsule.Capsule, program string) (string, error) {
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

// restDeadline bounds the time from the batch script's return to that of the last task:
// their srun has to start again, and Slurm lets it wait for nothing else.
const restDeadline = 10 * time.Minute

// awaitRest ends a run whose steps do not come back.
func (j *job) awaitRest(ctx context.Context) {
	j.mu.Lock()
	from, run := j.from, j.run
	j.mu.Unlock()
	select {
	case <-ctx.Done():
		return
	case <-time.After(restDeadline):
	}
	left, err := j.leftThere(ctx, from)
	j.mu.Lock()
	same := j.from == from && j.run == run
	j.mu.Unlock()
	if err != nil || len(left) == 0 || !same {
		return
	}
	err = fmt.Errorf("restore checkpoint %d: no task came for %s", from.id.Number, join(left))
	if up := j.giveUp(err); up != nil {
		j.log.Error("hold the job", "error", up)
	}
}

// settled tells the leader when no program of this node is left.
func (j *job) settled(ctx context.Context) error {
	left, err := j.leftHere(ctx, store.ID{}, empty{})
	if err != nil || len(left) > 0 {
		return err
	}
	return j.c.callNodeRetrying(ctx, restoreCallTimeout, j.leader(), j.id, callNodeRestored, empty{}, nil)
}

// leftHere returns the programs of this node that are not restored yet, those of
// capsules that are not here yet included.
func (j *job) leftHere(context.Context, store.ID, empty) ([]string, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var left []string
	for _, h := range j.held {
		left = append(left, h.note.Left...)
	}
	if j.from == nil {
		return left, nil
	}
	for _, m := range j.from.meta.Capsules {
		if j.where.node(m.Index) != j.c.Node || j.held[m.Index] != nil {
			continue
		}
		for _, p := range m.Programs {
			left = append(left, p.Name)
		}
	}
	return left, nil
}

// restoredThere is told, on the leader, that a node has all of its programs. When all
// nodes have, packets may pass: until then an end of a connection that is not there yet
// would be answered with a reset.
func (j *job) restoredThere(ctx context.Context, _ store.ID, _ empty) (empty, error) {
	j.mu.Lock()
	from, where := j.from, j.where
	j.mu.Unlock()
	if from == nil {
		return empty{}, nil
	}
	if opened, err := j.open(ctx, from, where); err != nil || !opened {
		return empty{}, err
	}
	j.log.Info("job restored", "checkpoint", from.id.Number)
	j.happened(eventRestored, where.today, fmt.Sprintf("from checkpoint %d", from.id.Number))
	j.say(fmt.Sprintf("restored from checkpoint %d on %s", from.id.Number, join(where.today)) + from.without)
	return empty{}, nil
}

// open lets a job that is whole go on, and tells whether it was this call that did so: when
// two nodes are ready at once, each finds that all are.
func (j *job) open(ctx context.Context, from *origin, where placement) (bool, error) {
	j.opening.Lock()
	defer j.opening.Unlock()
	j.mu.Lock()
	over := j.back || j.from != from
	j.mu.Unlock()
	if over {
		return false, nil
	}
	if left, err := j.leftThere(ctx, from); err != nil || len(left) > 0 {
		return false, err
	}
	if err := j.meet(ctx, from, where); err != nil {
		return false, err
	}
	j.log.Debug("phase begins", "phase", callUnlock)
	g, gctx := errgroup.WithContext(ctx)
	for node := range from.nodes(where) {
		if node != j.c.Node {
			g.Go(func() error {
				return j.c.callNodeRetrying(gctx, restoreCallTimeout, node, j.id, callUnlock, empty{}, nil)
			})
		}
	}
	if err := g.Wait(); err != nil {
		return false, err
	}
	// This node's own last: as long as they are shut, a successor knows that it is to go on.
	if _, err := j.openHere(ctx, store.ID{}, empty{}); err != nil {
		return false, err
	}
	return true, j.markBack()
}

// markBack marks that all programs are.
func (j *job) markBack() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.back = true
	if j.rec.Cut == 0 {
		return nil
	}
	rec := *j.rec
	rec.Cut, j.rec = 0, &rec
	return j.c.records.save(&rec)
}

// nodes are those of this run that have capsules of the checkpoint.
func (o *origin) nodes(where placement) map[string]bool {
	nodes := map[string]bool{}
	for _, m := range o.meta.Capsules {
		nodes[where.node(m.Index)] = true
	}
	return nodes
}

// leftThere asks all nodes which programs are not restored yet.
func (j *job) leftThere(ctx context.Context, from *origin) ([]string, error) {
	j.mu.Lock()
	where := j.where
	j.mu.Unlock()
	var mu sync.Mutex
	var left []string
	g, ctx := errgroup.WithContext(ctx)
	for node := range from.nodes(where) {
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

// shut says whether a capsule of this node waits for the job to be whole.
func (j *job) shut() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, h := range j.held {
		if h.note.Shut {
			return true
		}
	}
	return false
}

// openHere lets packets pass, and devices work. It may be called twice.
func (j *job) openHere(ctx context.Context, _ store.ID, _ empty) (empty, error) {
	if j.givenUp() {
		return empty{}, errGivenUp
	}
	var errs []error
	for _, h := range j.capsules() {
		err := overlay.Unlock(h.c.PID())
		if err == nil && h.devices != nil {
			err = h.resumeDevices(ctx)
		}
		if err == nil {
			j.mu.Lock()
			h.note.Shut = false
			j.save(h)
			j.mu.Unlock()
		}
		errs = append(errs, err)
	}
	return empty{}, errors.Join(errs...)
}
