// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// A process that asks its device server for a ring is connected to it for a tenth of a millisecond, again and again while the job's
// devices stand still. One that is frozen at such a moment CRIU cannot take: the socket's other end is outside. So it goes on until it has
// closed the socket, and is frozen again.

const (
	connectionPollInterval = time.Millisecond
	connectionPolls        = 100 // before it is frozen once more
	freezeTries            = 20
)

var errAlwaysConnected = errors.New("a process is connected to the device server all the time")

// freezeDisconnected has frozen programs go on, and freezes them again, until none is connected to the capsule's device server. Programs that
// are not frozen end their visits by themselves.
func (lc *localCapsule) freezeDisconnected(ctx context.Context, programs []string) error {
	if lc.devices == nil {
		return nil
	}
	visited := func() (bool, error) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/unix", lc.capsule.PID()))
		return err == nil && hasDeviceConnection(string(b)), err
	}
	for range freezeTries {
		is, err := visited()
		if err != nil || !is {
			return err
		}
		if err := lc.capsule.Thaw(ctx, programs...); err != nil {
			return err
		}
		for range connectionPolls {
			if is, err = visited(); err != nil {
				return err
			}
			if !is {
				break
			}
			if !sleepUnlessDone(ctx, connectionPollInterval) { // nobody tells when a socket is closed
				return context.Cause(ctx)
			}
		}
		if err := lc.capsule.Freeze(ctx, programs...); err != nil {
			return err
		}
	}
	return errAlwaysConnected
}

// hasDeviceConnection tells whether the unix sockets of a capsule's network namespace have one whose other end is, or was, a process's, and which is
// the device server's: it has the name of that one's, and is there from before the server has taken the connection until it has seen that
// the process has closed it.
func hasDeviceConnection(table string) bool {
	const listens = "00010000"
	for line := range strings.Lines(table) {
		// Num RefCount Protocol Flags Type St Inode Path
		w := strings.Fields(line)
		if len(w) == 8 && w[3] != listens && w[4] == "0005" && strings.HasSuffix(w[7], "/"+deviceSocket) {
			return true
		}
	}
	return false
}
