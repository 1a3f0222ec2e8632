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
)

// nodes of a cluster: a job has two of them, and one to go to.
var nodes = []string{"n1", "n2", "n3"}

// cluster is one minicluster with singularity-slurm, on which one case runs at a time.
type cluster struct {
	name  string
	fresh bool // to be raised before it is used
}

// raise brings a cluster up, with daemons that say when a phase begins.
func raise(t *testing.T, name string) *cluster {
	t.Helper()
	c := &cluster{name: name}
	t.Cleanup(func() { _, _ = c.minicluster(context.Background(), "down") })
	if err := c.up(context.Background()); err != nil {
		t.Fatal(err)
	}
	return c
}

// up raises the cluster, anew if it is there.
func (c *cluster) up(ctx context.Context) error {
	_, _ = c.minicluster(ctx, "down")
	if _, err := c.minicluster(ctx, "up", "--nodes", strconv.Itoa(len(nodes)), "--singularity"); err != nil {
		return err
	}
	for _, n := range nodes {
		if _, err := c.exec(ctx, n, "root", "sh", "-c", "echo 'log_level: debug' >> /etc/singularity-slurm/proxyd.yaml"); err != nil {
			return err
		}
		if _, err := c.minicluster(ctx, "restart", n, "proxyd"); err != nil {
			return err
		}
	}
	if err := os.Mkdir(c.shared("faults"), 0o755); err != nil {
		return err
	}
	program, err := os.ReadFile("testdata/count.py")
	if err == nil {
		err = os.WriteFile(c.shared("faults/count.py"), program, 0o644)
	}
	return err
}

// keep saves what is to be known of a trial that went wrong.
func (c *cluster) keep(dir string, j *job) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	args := []string{"-r", filepath.Join("/var/lib/minicluster", c.name, "logs"), dir}
	if j != nil {
		args = []string{"-r", args[1], c.shared(j.folder), dir}
	}
	if out, err := exec.Command("cp", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// minicluster runs the program of that name and returns what it wrote to its standard output.
func (c *cluster) minicluster(ctx context.Context, verb string, args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, *mcProgram, append([]string{verb, "--name", c.name}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		said := strings.TrimSpace(out.String() + errs.String())
		return "", fmt.Errorf("%s %s: %w: %s", verb, strings.Join(args, " "), err, said[max(0, len(said)-400):])
	}
	return strings.TrimSpace(out.String()), nil
}

func (c *cluster) exec(ctx context.Context, host, user string, command ...string) (string, error) {
	return c.minicluster(ctx, "exec", append([]string{host, "--user", user, "--"}, command...)...)
}

// scontrol is an administrator's command on ctl.
func (c *cluster) scontrol(ctx context.Context, args ...string) error {
	_, err := c.exec(ctx, "ctl", "root", append([]string{"scontrol"}, args...)...)
	return err
}

// shared is /shared of the cluster, as this machine sees it.
func (c *cluster) shared(path string) string {
	return filepath.Join("/var/lib/minicluster", c.name, "shared", path)
}

func (c *cluster) log(host, daemon string) string {
	return filepath.Join("/var/lib/minicluster", c.name, "logs", host, daemon+".log")
}

// process finds a daemon of a host by its command line, as this machine counts.
func (c *cluster) process(host string, command ...string) (int, error) {
	want := strings.Join(command, "\x00") + "\x00"
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, dir := range all {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || string(line) != want {
			continue
		}
		name, _ := os.ReadFile(filepath.Join(dir, "root/etc/hostname"))
		conf, _ := os.ReadFile(filepath.Join(dir, "root/etc/slurm/slurm.conf"))
		if strings.TrimSpace(string(name)) == host && bytes.Contains(conf, []byte("ClusterName="+c.name+"\n")) {
			return strconv.Atoi(filepath.Base(dir))
		}
	}
	return 0, fmt.Errorf("no %s on %s", strings.Join(command, " "), host)
}

func (c *cluster) proxyd(host string) (int, error) { return c.process(host, "proxyd", "daemon") }

// kill ends a daemon as a bug would.
func (c *cluster) kill(host string, command ...string) error {
	pid, err := c.process(host, command...)
	if err != nil {
		return err
	}
	return unix.Kill(pid, unix.SIGKILL)
}

// halt stops a process and returns when all of it stands still.
func halt(ctx context.Context, pid int) error {
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
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// idle waits until every node is in service with nothing on it.
func (c *cluster) idle(ctx context.Context) error {
	return eventually(ctx, 90*time.Second, func() (bool, string) {
		said, err := c.exec(ctx, "ctl", "root", "sinfo", "-h", "-N", "-p", "main", "-o", "%N %T")
		return err == nil && strings.Count(said, " idle") == strings.Count(said, "\n")+1, fmt.Sprint("nodes: ", said, err)
	})
}

// left names what the nodes still have of a job.
func (c *cluster) left(ctx context.Context, job string) (string, error) {
	var all []string
	for _, n := range nodes {
		said, err := c.exec(ctx, n, "root", "sh", "-c", "cd /var/lib/singularity-slurm; ls -d */"+job+".* 2>/dev/null; true")
		if err != nil {
			return "", err
		}
		if said != "" {
			all = append(all, n+": "+strings.Join(strings.Fields(said), " "))
		}
	}
	return strings.Join(all, "; "), nil
}

// eventually waits until ok says yes; its error has what it says last.
func eventually(ctx context.Context, within time.Duration, ok func() (bool, string)) error {
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
		if err := pause(ctx, 250*time.Millisecond); err != nil {
			return fmt.Errorf("not within %s: %s", within, said)
		}
	}
}

// pause waits; how long a fault lasts is a time.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
