// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package mini runs the commands of minicluster, for tests that raise a cluster.
package mini

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Cluster is a cluster of minicluster, up or down.
type Cluster struct {
	Program string // path of minicluster
	Name    string
}

// Run runs a verb of minicluster on the cluster and returns the standard output.
func (c Cluster) Run(ctx context.Context, verb string, args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, c.Program, append([]string{verb, "--name", c.Name}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		said := strings.TrimSpace(out.String() + errs.String())
		return "", fmt.Errorf("%s %s: %w: %s", verb, strings.Join(args, " "), err, said[max(0, len(said)-400):])
	}
	return strings.TrimSpace(out.String()), nil
}

// Exec runs a command on a host.
func (c Cluster) Exec(ctx context.Context, host, user string, command ...string) (string, error) {
	return c.Run(ctx, "exec", append([]string{host, "--user", user, "--"}, command...)...)
}

// Scontrol runs scontrol as root on ctl.
func (c Cluster) Scontrol(ctx context.Context, args ...string) error {
	_, err := c.Exec(ctx, "ctl", "root", append([]string{"scontrol"}, args...)...)
	return err
}

// Shared returns the path on this machine of a file below the cluster's /shared.
func (c Cluster) Shared(path ...string) string {
	return filepath.Join(append([]string{"/var/lib/minicluster", c.Name, "shared"}, path...)...)
}

// Log returns the path of the log of a host's daemon.
func (c Cluster) Log(host, daemon string) string {
	return filepath.Join("/var/lib/minicluster", c.Name, "logs", host, daemon+".log")
}

// FindProcess returns the PID on this machine of a host's program, by the first words of its command line. Two clusters of
// the same name, which minicluster refuses, would be taken for each other.
func (c Cluster) FindProcess(host string, command ...string) (int, error) {
	want := strings.Join(command, "\x00") + "\x00"
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, dir := range all {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || !strings.HasPrefix(string(line), want) {
			continue
		}
		name, _ := os.ReadFile(filepath.Join(dir, "root/etc/hostname"))
		conf, _ := os.ReadFile(filepath.Join(dir, "root/etc/slurm/slurm.conf"))
		if strings.TrimSpace(string(name)) == host && bytes.Contains(conf, []byte("ClusterName="+c.Name+"\n")) {
			return strconv.Atoi(filepath.Base(dir))
		}
	}
	return 0, fmt.Errorf("no %s on %s", strings.Join(command, " "), host)
}

// WaitForStateSave returns when slurmctld has saved its state, the job included: a slurmctld that is killed before has
// forgotten the job.
func (c Cluster) WaitForStateSave(ctx context.Context, job string) error {
	pid, err := c.FindProcess("ctl", "slurmctld", "-D", "-i")
	if err != nil {
		return err
	}
	began := time.Now()
	// slurmctld saves a job only if a value has changed, so the value is new each time.
	if err := c.Scontrol(ctx, "update", "JobId="+job, fmt.Sprintf("Nice=%d", 1+began.UnixNano()%100)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		st, err := os.Stat(fmt.Sprintf("/proc/%d/root/var/spool/slurmctld/job_state", pid))
		if err == nil && st.ModTime().After(began) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("slurmctld does not save its state: %w", ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}
