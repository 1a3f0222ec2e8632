// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
)

// logLineTimeout bounds the wait for a line in a job's log: the file system of the log may hang.
const logLineTimeout = 2 * time.Second

// writeLogLine writes a line into the log of the job, on the node of the batch script: to the
// standard error of the script. Only the leader writes lines, so a line is there once.
//
// A process of the user opens the file, because a user can have anything for a log, for example a
// pipe that no process reads. If that process hangs, the daemon goes on. The process is in the job's
// cgroup, because its user could take it over: the limits of the job hold for it.
func (r jobReport) writeLogLine(ctx context.Context, text string) {
	j := r.j
	if !j.isLeader() {
		return
	}
	j.mu.Lock()
	lc := j.capsules[0]
	warden := 0
	if lc != nil {
		warden = lc.note.WardenPIDs[records.BatchProgram]
	}
	j.mu.Unlock()
	if lc == nil {
		return
	}
	script, err := lc.processOfScript(ctx)
	if err == nil {
		rec, group := j.run.Snapshot().Record, processes.OwnCgroup(j.c.Cgroups, warden)
		line := strings.ReplaceAll(r.trimJobPrefix(text), "\n", "; ") // joined errors have several lines
		err = appendToStderr(ctx, rec, script, group, commentPrefix+line)
	}
	if err != nil {
		j.log.Info("write into the job's log", "error", err)
	}
}

// processOfScript returns the PID of the batch script, in this daemon's PID namespace.
func (lc *localCapsule) processOfScript(ctx context.Context) (int, error) {
	programs, err := processes.RunningPrograms(ctx, lc.capsule)
	if err != nil {
		return 0, err
	}
	for _, p := range programs {
		if p.Name != records.BatchProgram {
			continue
		}
		for _, pid := range processes.InCgroup(p.Cgroup) {
			if processes.NamespacePID(pid) == p.First {
				return pid, nil
			}
		}
	}
	return 0, errNoProgram
}

// writeStartLine writes in the background what the user should know of the run that begins.
func (j *job) writeStartLine() {
	j.mu.Lock()
	line := j.startLine
	j.startLine = ""
	j.mu.Unlock()
	if line != "" {
		j.c.startBackground(func(ctx context.Context) { j.report.writeLogLine(ctx, line) })
	}
}

// appendToStderr appends a line to the standard error of a process of a job, with the rights of
// the job's user and in a cgroup; "": in the daemon's own.
func appendToStderr(ctx context.Context, rec *records.Record, pid int, cgroup, line string) error {
	ctx, cancel := context.WithTimeout(ctx, logLineTimeout)
	defer cancel()
	cmd := exec.Command("/bin/sh", "-c", `printf '%s\n' "$1" >>"/proc/$2/fd/2"`, "sh", line, fmt.Sprint(pid))
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Credential: &syscall.Credential{Uid: rec.UID, Gid: rec.GID, Groups: []uint32{rec.GID}},
	}
	if cgroup != "" {
		group, err := os.Open(cgroup)
		if err != nil {
			return err
		}
		defer group.Close()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(group.Fd())
	}
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
