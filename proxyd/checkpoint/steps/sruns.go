// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/srun"
)

// Sruns are the sruns that the programs of a capsule have started, by key. An srun stays until
// its end was reported to the program. All methods may be called concurrently.
type Sruns struct {
	mu         sync.Mutex
	runners    map[string]*srun.Runner
	unreported map[string]bool // sruns that failed, which was not reported to the script
}

// Add adds an srun, in the place of an earlier srun with the same key.
func (s *Sruns) Add(key string, r *srun.Runner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runners == nil {
		s.runners = map[string]*srun.Runner{}
	}
	s.runners[key] = r
}

// Get returns an srun; nil if there is none.
func (s *Sruns) Get(key string) *srun.Runner {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runners[key]
}

// Keys returns the keys of all sruns.
func (s *Sruns) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.runners))
}

func (s *Sruns) copyRunners() map[string]*srun.Runner {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.runners)
}

// RemoveEnded removes an srun that has ended. The result is false if the srun's failure was
// not reported: then the srun is kept until its caller asks, or the job ends.
func (s *Sruns) RemoveEnded(key string, r *srun.Runner) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unreported[key] {
		return false
	}
	if s.runners[key] == r {
		delete(s.runners, key)
	}
	return true
}

// MarkUnreported notes that the failure of an srun is not reported to the script.
func (s *Sruns) MarkUnreported(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unreported == nil {
		s.unreported = map[string]bool{}
	}
	s.unreported[key] = true
}

// IsUnreported tells whether the failure of an srun was not reported.
func (s *Sruns) IsUnreported(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unreported[key]
}

// Silence makes the sruns report no failure of their tasks from now on. The errors name the sruns
// that could not be reached.
func (s *Sruns) Silence(ctx context.Context) (err error) {
	for key, r := range s.copyRunners() {
		if e := r.Quiet(ctx); e != nil {
			err = errors.Join(err, fmt.Errorf("srun %s: %w", key, e))
		}
	}
	return err
}

// TakeAllOutput has the sing-sruns take in all output that comes. The errors name the sruns that could
// not be reached, or have runners of a release that does not know the request.
func (s *Sruns) TakeAllOutput(ctx context.Context) error {
	return s.askEach(func(r *srun.Runner) error { return r.TakeAllOutput(ctx) })
}

// PaceOutput undoes TakeAllOutput.
func (s *Sruns) PaceOutput(ctx context.Context) error {
	return s.askEach(func(r *srun.Runner) error { return r.PaceOutput(ctx) })
}

// askEach makes a request of the runner of each srun, of all at the same time: where the user has stopped the
// process that writes for a runner, the request takes ten seconds.
func (s *Sruns) askEach(ask func(*srun.Runner) error) error {
	runners := s.copyRunners()
	errs := make(chan error, len(runners))
	for key, r := range runners {
		go func() {
			err := ask(r)
			if err != nil {
				err = fmt.Errorf("srun %s: %w", key, err)
			}
			errs <- err
		}()
	}
	var all error
	for range runners {
		all = errors.Join(all, <-errs)
	}
	return all
}

// IdleWaits returns a function for each srun, which waits until the srun has written all output of its tasks.
func (s *Sruns) IdleWaits() (waits []func(context.Context) error) {
	for key, r := range s.copyRunners() {
		waits = append(waits, func(ctx context.Context) error {
			if err := r.Idle(ctx); err != nil {
				return fmt.Errorf("srun %s: %w", key, err)
			}
			return nil
		})
	}
	return waits
}

// PIDs returns the processes of the sruns that run.
func (s *Sruns) PIDs() (pids []int) {
	for _, r := range s.copyRunners() {
		if !r.Ended() {
			pids = append(pids, r.PID())
		}
	}
	return pids
}

// killTimeout is how long an srun and its runner may take to end. A runner that closes a file
// of a file system that does not answer never ends, and the job's end must not wait for such a file.
const killTimeout = 20 * time.Second

// Kill ends all sruns. The errors name the sruns that could not be ended.
func (s *Sruns) Kill(ctx context.Context) (err error) {
	for key, r := range s.copyRunners() {
		if e := killRunner(ctx, r); e != nil {
			err = errors.Join(err, fmt.Errorf("srun %s: %w", key, e))
		}
	}
	return err
}

func killRunner(ctx context.Context, r *srun.Runner) error {
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	return r.Kill(ctx)
}

// EndOf waits for the end of an srun that a caller asks for again, and returns its status. known
// is false if there is no such srun. The caller asks only because the runner is gone.
func (s *Sruns) EndOf(ctx context.Context, key string) (status syscall.WaitStatus, known bool, err error) {
	r := s.Get(key)
	if r == nil {
		return 0, false, nil
	}
	status, err = r.Wait(ctx)
	if errors.Is(err, srun.ErrGone) {
		return syscall.WaitStatus(syscall.SIGKILL), true, nil
	}
	return status, err == nil, err
}
