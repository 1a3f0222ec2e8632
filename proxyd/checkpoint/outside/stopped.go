// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package outside

import (
	"context"
	"errors"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/life"
	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// The forwarder has the rights of the job's user, and the user can stop the forwarder by a signal. A stopped forwarder does
// not answer, while the job's programs are frozen and wait for the answer.

// ErrStopped is wrapped by the errors of orders to a forwarder that a signal has stopped.
var ErrStopped = errors.New("a signal has stopped it, and it does not answer")

// A forwarder that is found stopped at so many looks in a row is not waited for. The kernel tells only a parent that a
// process is stopped, and after a restart the daemon is not the parent.
const (
	stoppedLook  = 200 * time.Millisecond
	stoppedLooks = 10
)

// awaitStopped returns true when a process is stopped, and false when ctx or the process has ended.
func awaitStopped(ctx context.Context, p *life.Server) bool {
	tick := time.NewTicker(stoppedLook)
	defer tick.Stop()
	for seen := 0; seen < stoppedLooks; {
		select {
		case <-ctx.Done():
			return false
		case <-p.Died():
			return false
		case <-tick.C:
		}
		if seen++; !isStopped(p.PID()) {
			seen = 0
		}
	}
	return true
}

// isStopped tells whether a signal has stopped a process.
func isStopped(pid int) bool {
	s, err := procfs.ReadStat(pid)
	return err == nil && s.State == 'T'
}
