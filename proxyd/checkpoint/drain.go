// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/srun"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// drain waits until the tasks' output has reached the files or terminals of their sruns, or the
// sing-sruns, where output is kept for slow readers: output on the way is in no image. First the pipes
// to slurmstepd and slurmstepd itself are emptied on all nodes, then the sruns. Meanwhile the
// sing-sruns take in all that comes, and the wardens all input; the sing-sruns pass on no more input.
// thawCapsule ends that.
func (a *attempt) drain(ctx context.Context) error {
	if err := a.drainTasks(ctx); err != nil {
		return err
	}
	return a.drainSruns(ctx)
}

// drainInput waits, after the batch script and its sing-sruns have been frozen, until the standard input that these
// have passed on has reached the tasks' pipes, which are captured, or the queues of their wardens, which are saved.
// Input goes from srun to slurmstepd, so the sruns come first here.
func (a *attempt) drainInput(ctx context.Context) error {
	if err := a.drainSruns(ctx); err != nil {
		return err
	}
	return a.drainTasks(ctx)
}

func (a *attempt) drainTasks(ctx context.Context) error {
	return callNodesTogether(ctx, a, calls.Drain, calls.DrainArgs{})
}

func (a *attempt) drainSruns(ctx context.Context) error {
	return callNodesTogether(ctx, a, calls.Drain, calls.DrainArgs{Sruns: true})
}

func (p *participant) drainHere(ctx context.Context, id store.ID, args calls.DrainArgs) (calls.Empty, error) {
	j := p.j
	if _, err := p.membershipIn(id); err != nil {
		return calls.Empty{}, err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, lc := range j.localCapsules() {
		if args.Sruns {
			for _, wait := range lc.sruns.IdleWaits() {
				g.Go(func() error { return wait(ctx) })
			}
			continue
		}
		programs, err := processes.RunningPrograms(ctx, lc.capsule)
		if err != nil {
			return calls.Empty{}, err
		}
		if !isBatchFrozen(programs) { // frozen sing-sruns were asked before, and cannot answer
			if err := lc.sruns.TakeAllOutput(ctx); err != nil {
				j.log.Info("output waits for its reader", "capsule", lc.index, "error", err)
			}
		}
		for _, p := range programs {
			if p.Name != records.BatchProgram {
				g.Go(func() error { return drainProgram(ctx, inputOf(lc, p, id.Number)) })
			}
		}
	}
	return calls.Empty{}, g.Wait()
}

func isBatchFrozen(programs []capsule.Program) bool {
	return slices.ContainsFunc(programs, func(p capsule.Program) bool { return p.Name == records.BatchProgram && p.Frozen })
}

// drainProgram returns when slurmstepd has passed on all output of a frozen task, and all input for it.
func drainProgram(ctx context.Context, in programInput) error {
	relay, err := in.lc.inputs.Copy(in.attempt, in.program.Name)
	if err != nil {
		return fmt.Errorf("program %s: standard input: %w", in.program.Name, err)
	}
	if relay != nil {
		return in.settleAndKeepRelay(ctx, relay)
	}
	stepd, err := processes.ParentPID(in.warden.PID)
	if err != nil || in.warden.HasEnded() {
		return nil //nolint:nilerr // the warden is gone, and with it slurmstepd: the output has no reader any more
	}
	return waitForStepd(ctx, in.program, stepd)
}

// waitForStepd returns when slurmstepd has read and forwarded the output of a frozen task.
func waitForStepd(ctx context.Context, p capsule.Program, stepd int) error {
	for fd := 1; fd <= 2; fd++ {
		if !strings.HasPrefix(p.Stdio[fd], "pipe:[") {
			continue
		}
		if err := processes.WaitForEmptyPipe(ctx, stepd, p.Stdio[fd]); err != nil {
			return fmt.Errorf("program %s: output %d is not read: %w", p.Name, fd, err)
		}
	}
	return srun.StepdIdle(ctx, stepd)
}

// Standard input of a task that is on its way at a checkpoint comes into the queue of the task's warden, which is saved
// beside the image, and put into the queue of the new warden before the new warden goes on:
//
//	pipe of the program, in the image ─► queue ─► input from the srun of the new run

// programInput is the standard input of a program.
type programInput struct {
	lc      *localCapsule
	program capsule.Program
	warden  processes.Process
	attempt uint32 // number of the checkpoint in progress; 0: none
}

// inputStream is the stream of a program's queue, below the capsule's prefix.
func inputStream(program string) string { return "input/" + program }

func inputOf(lc *localCapsule, p capsule.Program, attempt uint32) programInput {
	lc.j.mu.Lock()
	defer lc.j.mu.Unlock()
	return programInput{lc, p, lc.note.wardenOf(p.Name), attempt}
}

// memoryPayer returns the payer for the memory of the program's input: the job's user, in the cgroup of the warden.
func (in programInput) memoryPayer() processes.Payer {
	rec := in.lc.j.run.Snapshot().Record
	return processes.Payer{UID: rec.UID, GID: rec.GID, Cgroup: processes.OwnCgroup(in.lc.j.c.Cgroups, in.warden)}
}

// keepInputRelay keeps the input that the program's warden has. It runs before the warden may end without the program.
func (in programInput) keepInputRelay() error {
	relay, err := processes.OpenInputRelay(in.warden, in.program.Stdio[0], in.memoryPayer())
	if err == nil && relay != nil {
		err = in.lc.inputs.Keep(in.attempt, in.program.Name, relay)
	}
	if err != nil {
		return fmt.Errorf("program %s: standard input: %w", in.program.Name, err)
	}
	return nil
}

// settleAndKeepRelay returns when everything that slurmstepd has had for a frozen task is in the task's pipe, or in the
// queue of its warden, and keeps the relay, which it takes over, for saveInput. The second time, after the batch
// script has been frozen, slurmstepd gets no more.
func (in programInput) settleAndKeepRelay(ctx context.Context, relay *processes.InputRelay) error {
	isSecond := relay.IsSettled()
	if err := in.settleInput(ctx, relay); err != nil {
		relay.Close()
		return fmt.Errorf("program %s: standard input: %w", in.program.Name, err)
	}
	if isSecond {
		relay.ClosePipe()
	}
	return in.lc.inputs.Keep(in.attempt, in.program.Name, relay)
}

// settleInput has the warden take all input and waits until the warden is done; if the warden is killed meanwhile,
// settleInput takes the rest itself.
func (in programInput) settleInput(ctx context.Context, relay *processes.InputRelay) error {
	if err := in.lc.capsule.TakeAllInput(ctx, in.program.Name); err != nil && !in.warden.HasEnded() {
		in.lc.j.log.Info("input waits for its reader", "capsule", in.lc.index, "program", in.program.Name, "error", err)
	}
	for more := true; more; {
		if stepd := relay.Stepd(); !stepd.HasEnded() {
			if err := waitForStepd(ctx, in.program, stepd.PID); err != nil {
				return err
			}
		}
		if err := relay.WaitUntilTaken(ctx); err != nil {
			return fmt.Errorf("a part is still on its way: %w", err)
		}
		if err := srun.WardenIdle(ctx, in.warden.PID); err != nil {
			return err
		}
		var err error
		if more, err = relay.Settle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// paceWarden has a warden take no more input than its program, as before settleAndKeepRelay.
func (in programInput) paceWarden(ctx context.Context) error {
	p := in.program
	if p.Name == records.BatchProgram || p.Waiting || !strings.HasPrefix(p.Stdio[0], "pipe:[") {
		return nil
	}
	err := in.lc.capsule.PaceInput(ctx, p.Name)
	if errors.Is(err, syscall.ENOSYS) || err != nil && isGone(err) {
		return nil // the capsule's init is of an older release, and has not told the warden to take all input
	}
	return err
}

// saveInput writes the queue that was kept of a frozen program's warden, and notes its size in m.
func (in programInput) saveInput(w upload.ShareWriter, prefix string, m *records.ProgramMeta) error {
	queue, err := in.lc.inputs.Copy(in.attempt, in.program.Name)
	if err != nil || queue == nil {
		return err
	}
	defer queue.Close()
	b, err := queue.Queue()
	if err != nil {
		return err
	}
	m.InputEnded = queue.HasEnded()
	if b.Size() == 0 {
		return nil
	}
	s, err := w.Create(prefix + inputStream(in.program.Name))
	if err != nil {
		return err
	}
	m.Input, err = io.Copy(s, b) // in pieces: a node may have many tasks
	return errors.Join(err, s.Close())
}

// restoreInput fills the queue of the warden that waits for a program.
func (in programInput) restoreInput(ctx context.Context, src upload.StreamSource, was *records.ProgramMeta) error {
	if was.Input == 0 && !was.InputEnded {
		return nil
	}
	relay, err := processes.OpenInputRelay(in.warden, in.program.Stdio[0], in.memoryPayer())
	if err != nil {
		return err
	}
	if relay == nil && was.Input == 0 {
		return nil // there is no input to end
	}
	if relay == nil {
		return fmt.Errorf("%d bytes were on their way at the checkpoint, and the warden here takes none: it is of an older release", was.Input)
	}
	defer relay.Close()
	if err := in.fillQueue(ctx, relay, src, was); err != nil || !was.InputEnded {
		return err
	}
	return relay.End()
}

func (in programInput) fillQueue(ctx context.Context, relay *processes.InputRelay, src upload.StreamSource, was *records.ProgramMeta) error {
	if was.Input == 0 {
		return nil
	}
	r, err := src.Open(inputStream(was.Name))
	if err != nil {
		return err
	}
	defer r.Close()
	n, err := relay.Fill(ctx, r)
	if err == nil && n != was.Input {
		err = fmt.Errorf("%d bytes were saved, and %d are there", was.Input, n)
	}
	return err
}
