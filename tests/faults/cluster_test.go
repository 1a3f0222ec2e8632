//go:build faults

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/tests/mini"
)

// nodes of a cluster: a job has two nodes, and the third to go to.
var nodes = []string{"n1", "n2", "n3"}

// cluster is a single minicluster with singularity-slurm, on which one case runs at a time.
type cluster struct {
	mini.Cluster
	fresh bool // to be raised before use
}

func newCluster(name string) *cluster {
	return &cluster{Cluster: mini.Cluster{Program: *mcProgram, Name: name}}
}

// raiseCluster brings a cluster up, with daemons that say when a phase or a step begins.
func raiseCluster(t *testing.T, name string) *cluster {
	t.Helper()
	c := newCluster(name)
	t.Cleanup(func() { _, _ = c.Run(context.Background(), "down") })
	if err := c.raiseAnew(context.Background()); err != nil {
		t.Fatal(err)
	}
	return c
}

// raiseAnew raises the cluster, also if the cluster is there already.
func (c *cluster) raiseAnew(ctx context.Context) error {
	_, _ = c.Run(ctx, "down")
	if _, err := c.Run(ctx, "up", "--nodes", strconv.Itoa(len(nodes)), "--gpus", "1", "--singularity", "--suite", *suite); err != nil {
		return err
	}
	configure := "echo 'log: {level: debug}' >> /etc/singularity-slurm/proxyd.yaml"
	if *staging != "" {
		configure += fmt.Sprintf("; mkdir -m 700 %[1]s; printf 'staging:\n  folder: %[1]s\n  rate: 2M\n  patience: 30s\n' >> /etc/singularity-slurm/proxyd.yaml", *staging)
	}
	for _, n := range nodes {
		if _, err := c.Exec(ctx, n, "root", "sh", "-c", configure); err != nil {
			return err
		}
		if _, err := c.Run(ctx, "restart", n, "proxyd"); err != nil {
			return err
		}
	}
	if err := os.Mkdir(c.Shared("faults"), 0o755); err != nil {
		return err
	}
	for _, name := range []string{"count.py", "train.sh", "pace.py"} {
		program, err := os.ReadFile(filepath.Join("testdata", name))
		if err == nil {
			err = os.WriteFile(c.Shared("faults", name), program, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// makeTraining builds the program of the jobs with GPUs into a folder that the nodes see.
func (c *cluster) makeTraining(ctx context.Context) error {
	bin := c.Shared("faults/bin")
	if _, err := os.Stat(filepath.Join(bin, "mlp")); err == nil {
		return nil
	}
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "make", "-s", "-C", "../workloads", "O="+bin, bin+"/mlp").CombinedOutput(); err != nil {
		return fmt.Errorf("tests/workloads: %w: %s", err, out)
	}
	return nil
}

// saveEvidence saves the cluster's logs and the job's folder of a failed trial, and the logs of the device servers that
// run.
func (c *cluster) saveEvidence(ctx context.Context, dir string, j *job) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	args := []string{"-r", filepath.Dir(filepath.Dir(c.Log("ctl", "slurmctld"))), dir}
	if j != nil {
		args = []string{"-r", args[1], c.Shared(j.folder), dir}
	}
	if out, err := exec.Command("cp", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	for _, n := range nodes {
		said, err := c.Exec(context.WithoutCancel(ctx), n, "root", "sh", "-c", "tail -n +1 -v /var/lib/singularity-slurm/devices/*/log 2>&1; true")
		if err != nil {
			said = err.Error() // the node is off
		}
		if err := os.WriteFile(filepath.Join(dir, n+".devices.log"), []byte(said+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) findProxyd(host string) (int, error) {
	return c.FindProcess(host, "proxyd", "daemon")
}

// killDaemon ends a daemon as a bug would.
func (c *cluster) killDaemon(host string, command ...string) error {
	pid, err := c.FindProcess(host, command...)
	if err != nil {
		return err
	}
	return unix.Kill(pid, unix.SIGKILL)
}

// stopProcess stops a process and returns when all threads stand still.
func stopProcess(ctx context.Context, pid int) error {
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		return err
	}
	for {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return err
		}
		if f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])); f[0] == "T" {
			return nil
		}
		if err := waitWhile(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// waitUntilIdle waits until every node is in service and idle.
func (c *cluster) waitUntilIdle(ctx context.Context) error {
	return waitFor(ctx, 90*time.Second, func() (bool, string) {
		said, err := c.Exec(ctx, "ctl", "root", "sinfo", "-h", "-N", "-p", "main", "-o", "%N %T")
		return err == nil && strings.Count(said, " idle") == strings.Count(said, "\n")+1, fmt.Sprint("nodes: ", said, err)
	})
}

// listLeftovers names the files in /var/lib/singularity-slurm that the nodes still have of a job.
func (c *cluster) listLeftovers(ctx context.Context, job string) (string, error) {
	var all []string
	for _, n := range nodes {
		said, err := c.Exec(ctx, n, "root", "sh", "-c", "cd /var/lib/singularity-slurm; ls -d */"+job+".* 2>/dev/null; true")
		if err != nil {
			return "", err
		}
		if said != "" {
			all = append(all, n+": "+strings.Join(strings.Fields(said), " "))
		}
	}
	return strings.Join(all, "; "), nil
}

// waitFor waits until ok says yes; its error has the last answer of ok.
func waitFor(ctx context.Context, within time.Duration, ok func() (bool, string)) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	said := ""
	for {
		done, now := ok()
		if done {
			return nil
		}
		if ctx.Err() == nil || said == "" {
			said = now
		}
		if err := waitWhile(ctx, 250*time.Millisecond); err != nil {
			return fmt.Errorf("not within %s: %s", within, said)
		}
	}
}

// waitWhile waits for a duration: how long a fault lasts is a time.
func waitWhile(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
