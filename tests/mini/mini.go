// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package mini runs the commands of minicluster, for tests that raise a cluster.
package mini

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
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
