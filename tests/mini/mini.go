// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package mini drives a minicluster as a person would, for the tests that raise one.
package mini

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Cluster is one cluster, whether it is up or not.
type Cluster struct {
	Program string // minicluster
	Name    string
}

// Run has minicluster do something with the cluster and returns what it wrote to its
// standard output.
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

// Scontrol is an administrator's command on ctl.
func (c Cluster) Scontrol(ctx context.Context, args ...string) error {
	_, err := c.Exec(ctx, "ctl", "root", append([]string{"scontrol"}, args...)...)
	return err
}

// Shared is a path below the cluster's /shared, as this machine sees it.
func (c Cluster) Shared(path ...string) string {
	return filepath.Join(append([]string{"/var/lib/minicluster", c.Name, "shared"}, path...)...)
}

// Log is the log of a host's daemon.
func (c Cluster) Log(host, daemon string) string {
	return filepath.Join("/var/lib/minicluster", c.Name, "logs", host, daemon+".log")
}
