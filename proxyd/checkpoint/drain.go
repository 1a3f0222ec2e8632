// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/srun"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// drain waits until the tasks' output has reached the files, pipes or terminals of their sruns:
// output on the way is in no image. First the pipes to slurmstepd and slurmstepd itself are
// emptied on all nodes, then the sruns.
func (a *attempt) drain(ctx context.Context) error {
	if err := a.callNodesTogether(ctx, phaseDrain, drainRequest{}); err != nil {
		return err
	}
	return a.callNodesTogether(ctx, phaseDrain, drainRequest{Sruns: true})
}

type drainRequest struct {
	Sruns bool `json:"sruns"`
}

func (j *job) drainHere(ctx context.Context, id store.ID, b drainRequest) (empty, error) {
	if _, err := j.membershipIn(id); err != nil {
		return empty{}, err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, lc := range j.localCapsules() {
		if b.Sruns {
			j.mu.Lock()
			for key, r := range lc.sruns {
				g.Go(func() error {
					if err := r.Idle(ctx); err != nil {
						return fmt.Errorf("srun %s: %w", key, err)
					}
					return nil
				})
			}
			j.mu.Unlock()
			continue
		}
		programs, err := runningPrograms(ctx, lc.capsule)
		if err != nil {
			return empty{}, err
		}
		for _, p := range programs {
			if p.Name == records.BatchProgram {
				continue
			}
			j.mu.Lock()
			warden := lc.note.WardenPIDs[p.Name]
			j.mu.Unlock()
			g.Go(func() error { return waitForStepd(ctx, p, warden) })
		}
	}
	return empty{}, g.Wait()
}

// waitForStepd returns when slurmstepd has read and forwarded the output of a frozen task.
func waitForStepd(ctx context.Context, p capsule.Program, warden int) error {
	stepd, err := parentPID(warden)
	if err != nil {
		return nil //nolint:nilerr // the warden is gone, and with it slurmstepd: nobody reads any more
	}
	for fd := 1; fd <= 2; fd++ {
		if !strings.HasPrefix(p.Stdio[fd], "pipe:[") {
			continue
		}
		if err := waitForEmptyPipe(ctx, stepd, p.Stdio[fd]); err != nil {
			return fmt.Errorf("program %s: output %d is not read: %w", p.Name, fd, err)
		}
	}
	return srun.StepdIdle(ctx, stepd)
}

// pipePollInterval is the time between two looks into a pipe. The kernel notifies only writers,
// not other processes, when a pipe becomes empty.
const pipePollInterval = 2 * time.Millisecond

// waitForEmptyPipe waits until the process pid, which has the reading end of a pipe, has read
// everything.
func waitForEmptyPipe(ctx context.Context, pid int, pipe string) error {
	f, err := openPipeOf(pid, pipe)
	if err != nil || f == nil {
		return err // nil: the process has closed the pipe and forwards nothing more
	}
	defer f.Close()
	tick := time.NewTicker(pipePollInterval)
	defer tick.Stop()
	for {
		n, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCINQ)
		if err != nil || n == 0 {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// openPipeOf opens a pipe of a process. It returns nil if the process has no such pipe.
func openPipeOf(pid int, pipe string) (*os.File, error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil, nil // the process has ended
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if to, err := os.Readlink(path); err != nil || to != pipe {
			continue
		}
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		return os.NewFile(uintptr(fd), pipe), nil
	}
	return nil, nil
}

func parentPID(pid int) (int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	s := string(b)
	var state string
	var parent int
	_, err = fmt.Sscan(s[strings.LastIndexByte(s, ')')+1:], &state, &parent)
	return parent, err
}
