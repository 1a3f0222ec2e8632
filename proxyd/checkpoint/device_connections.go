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

// A process that asks its device server for a ring is connected to the server for a tenth of a
// millisecond, again and again while the job's devices are stopped. CRIU cannot dump a process
// that is frozen in such a moment, because the other end of the socket is outside of the capsule.
// So the process is thawed until it has closed the socket, and frozen again.

const (
	connectionPollInterval = time.Millisecond
	connectionPolls        = 100 // before the programs are frozen once more
	freezeTries            = 20
)

var errAlwaysConnected = errors.New("a process stays connected to the device server")

// freezeDisconnected thaws and freezes frozen programs until none of them is connected to the
// capsule's device server. A program that is not frozen closes its connection by itself.
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
			if !sleepUnlessDone(ctx, connectionPollInterval) { // the kernel sends no notice of a closed socket
				return context.Cause(ctx)
			}
		}
		if err := lc.capsule.Freeze(ctx, programs...); err != nil {
			return err
		}
	}
	return errAlwaysConnected
}

// hasDeviceConnection tells whether the table of a network namespace's unix sockets lists a
// connection to the device server. Such a socket has the server's name, from before the server
// accepts the connection until the server has seen its end.
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
