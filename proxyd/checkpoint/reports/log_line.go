// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/asuser"
)

// logLineTimeout bounds the wait for a line in a job's log: the file system of the log may hang.
const logLineTimeout = 2 * time.Second

// Script is the batch script of a job. The standard error of the script is the log of the job.
type Script struct {
	PID      int // in this daemon's PID namespace
	UID, GID uint32
	Cgroup   string // of the job; "": the daemon's own
}

// appendToStderr appends a line to the standard error of the script.
//
// A process of the user opens the file, because a user can have anything for a log, for example a
// pipe that no process reads. If that process hangs, the daemon goes on. The process is in the job's
// cgroup, because its user could take over the process: the limits of the job hold then, too.
func (s *Script) appendToStderr(ctx context.Context, line string) error {
	ctx, cancel := context.WithTimeout(ctx, logLineTimeout)
	defer cancel()
	var group *os.File
	if s.Cgroup != "" {
		var err error
		if group, err = os.Open(s.Cgroup); err != nil {
			return err
		}
		defer group.Close()
	}
	// The wait below ends with ctx, in contrast to a command's own.
	cmd := asuser.Command(context.WithoutCancel(ctx), s.UID, s.GID, group, "/bin/sh", "-c", `printf '%s\n' "$1" >>"/proc/$2/fd/2"`, "sh", line, fmt.Sprint(s.PID))
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }() // cmd.Wait does not return while the process hangs in the kernel
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		_ = cmd.Process.Kill() // The process has ended, or is ending.
		return context.Cause(ctx)
	}
}
