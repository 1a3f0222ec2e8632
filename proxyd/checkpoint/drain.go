// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/srun"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// drain waits until the tasks' output has reached the files or terminals of their sruns, or the
// sing-sruns, where output is kept for slow readers: output on the way is in no image. First the pipes
// to slurmstepd and slurmstepd itself are emptied on all nodes, then the sruns. Meanwhile the
// sing-sruns take in all that comes; thawCapsule ends that.
func (a *attempt) drain(ctx context.Context) error {
	if err := a.callNodesTogether(ctx, calls.PhaseDrain, calls.DrainArgs{}); err != nil {
		return err
	}
	return a.callNodesTogether(ctx, calls.PhaseDrain, calls.DrainArgs{Sruns: true})
}

func (p *participant) drainHere(ctx context.Context, id store.ID, b calls.DrainArgs) (calls.Empty, error) {
	j := p.j
	if _, err := p.membershipIn(id); err != nil {
		return calls.Empty{}, err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, lc := range j.localCapsules() {
		if b.Sruns {
			for _, wait := range lc.sruns.IdleWaits() {
				g.Go(func() error { return wait(ctx) })
			}
			continue
		}
		if err := lc.sruns.TakeAllOutput(ctx); err != nil {
			j.log.Info("output waits for its reader", "capsule", lc.index, "error", err)
		}
		programs, err := processes.RunningPrograms(ctx, lc.capsule)
		if err != nil {
			return calls.Empty{}, err
		}
		for _, p := range programs {
			if p.Name == records.BatchProgram {
				continue
			}
			j.mu.Lock()
			warden := lc.note.warden(p.Name)
			j.mu.Unlock()
			g.Go(func() error { return waitForStepd(ctx, p, warden) })
		}
	}
	return calls.Empty{}, g.Wait()
}

// waitForStepd returns when slurmstepd has read and forwarded the output of a frozen task.
func waitForStepd(ctx context.Context, p capsule.Program, warden processes.Process) error {
	stepd, err := processes.ParentPID(warden.PID)
	if err != nil || warden.HasEnded() {
		return nil //nolint:nilerr // the warden is gone, and with it slurmstepd: nobody reads any more
	}
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
