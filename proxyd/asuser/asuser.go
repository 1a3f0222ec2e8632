// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package asuser starts programs with the rights of a user that this daemon does not trust.
package asuser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// setpriv is a program of util-linux, which every system with Slurm has.
const setpriv = "/usr/bin/setpriv"

// Command returns a command that executes a program as a user, in a session of its own, in the root folder, and in a cgroup unless
// cgroup is nil. The file may be closed when the command has been started.
//
// setpriv changes the user, not this daemon between fork and execve (SysProcAttr.Credential). The reason: Go's fork
// shares memory with its child, as vfork does, and its thread waits until execve without giving way to the garbage
// collector. A child with the user's id could be stopped by the user at that moment, and the daemon would stop with it.
func Command(ctx context.Context, uid, gid uint32, cgroup *os.File, program string, args ...string) *exec.Cmd {
	rights := []string{fmt.Sprintf("--reuid=%d", uid), fmt.Sprintf("--regid=%d", gid), fmt.Sprintf("--groups=%d", gid), "--", program}
	c := exec.CommandContext(ctx, setpriv, append(rights, args...)...)
	c.Dir, c.Env = "/", []string{"PATH=/usr/bin:/bin"}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if cgroup != nil {
		c.SysProcAttr.UseCgroupFD, c.SysProcAttr.CgroupFD = true, int(cgroup.Fd())
	}
	return c
}
