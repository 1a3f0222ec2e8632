//go:build live

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package live tests the plugin in real clusters of every suite: with a small proxyd
// that makes real capsules, the warden in them, and Slurm's own programs as users run
// them. It needs root and a built minicluster:
//
//	make build && go test -tags live ./slurm-spank/live
package live

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/nodesocket"
)

const (
	program = "../../contrib/minicluster/minicluster"
	libDir  = "usr/lib/singularity-slurm"
	exeDir  = "usr/libexec/singularity-slurm"
)

// suite is a version of Slurm that is tested.
type suite struct {
	name string
	line string // in plugstack.conf: required or optional
	// Whether plugins reach the programs of --multi-prog, which they do from 23.11.
	multiProg bool
}

// suites are the tested versions of Slurm. Where plugstack.conf has "required", a
// failure of the plugin would fail the step, or drain the node.
var suites = []suite{
	{"forky", "optional", true},
	{"trixie", "required", true},
	{"bookworm", "optional", false},
}

// cluster is a running cluster with the plugin installed.
type cluster struct {
	suite
	id     string
	shared string // on this machine; /shared there
}

type result struct {
	out, err string
	code     int
}

func runCommand(t *testing.T, stdin string, cmd *exec.Cmd) result {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(3*time.Minute, func() { cmd.Process.Kill() })
	defer timer.Stop()
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("running %q: %v", cmd.Args, err)
	}
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

func (r result) mustSucceed(t *testing.T) string {
	t.Helper()
	if r.code != 0 {
		t.Fatalf("a command that must succeed: exit code %d\n%s%s", r.code, r.out, r.err)
	}
	return r.out
}

// raiseCluster brings a cluster up with the plugin built for it.
func raiseCluster(t *testing.T, s suite) *cluster {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root, for minicluster")
	}
	install := t.TempDir()
	lib, exe := filepath.Join(install, libDir), filepath.Join(install, exeDir)
	for _, dir := range []string{lib, exe, filepath.Join(install, "etc/slurm")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	runBuild(t, exec.Command("make", "-s", "-C", "..", "O="+lib, "SPANK_INCLUDE="+findHeaders(t, s.name)))
	runBuild(t, exec.Command("make", "-s", "-C", "../warden", "O="+exe))
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(exe, "live.test"), string(self), 0o755)
	plugstack := fmt.Sprintf("%s /%s/spank_singularity.so retry=20\n", s.line, libDir)
	writeFile(t, filepath.Join(install, "etc/slurm/plugstack.conf"), plugstack, 0o644)

	c := &cluster{suite: s, id: "live-" + s.name}
	c.shared = filepath.Join("/var/lib/minicluster", c.id, "shared/live")
	runCommand(t, "", exec.Command(program, "up", "--name", c.id, "--suite", s.name, "--nodes", "2", "--install", install)).mustSucceed(t)
	t.Cleanup(func() {
		if t.Failed() {
			logs, _ := exec.Command("sh", "-c", "tail -n 20 /var/lib/minicluster/"+c.id+"/logs/n*/slurmd.log").CombinedOutput()
			t.Logf("%s", logs)
		}
		runCommand(t, "", exec.Command(program, "down", "--name", c.id)).mustSucceed(t)
	})
	if err := os.MkdirAll(c.shared, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(c.shared, 0o777); err != nil { // the umask may have taken bits away
		t.Fatal(err)
	}
	for _, node := range []string{"n1", "n2"} {
		c.serveNode(t, node)
	}
	return c
}

// serveNode starts the tests' proxyd on a node and has it started again when it dies.
func (c *cluster) serveNode(t *testing.T, node string) {
	t.Helper()
	loop := fmt.Sprintf("mkdir -p /var/lib/singularity-slurm; while :; do /%s/live.test %s /shared/live; sleep 1; done", exeDir, serveArg)
	cmd := exec.Command(program, "exec", node, "--name", c.id, "--", "sh", "-c", loop)
	if testing.Verbose() {
		cmd.Stderr = os.Stderr
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	waitFor(t, 10*time.Second, func() (bool, string) {
		r := c.runOn(t, node, "", "test", "-S", "/run/singularity-slurm/spank.sock")
		return r.code == 0, "proxyd does not listen on " + node
	})
}

// findHeaders returns the folder of a suite's slurm/spank.h.
func findHeaders(t *testing.T, suite string) string {
	t.Helper()
	found, err := filepath.Glob("/var/cache/minicluster/" + suite + "-*/usr/include/slurm/spank.h")
	if err != nil || len(found) == 0 {
		t.Fatalf("no spank.h of %s: bring a cluster of it up once (%v)", suite, err)
	}
	return filepath.Dir(filepath.Dir(found[0]))
}

func runBuild(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building with %v: %v\n%s", cmd, err, out)
	}
}

func writeFile(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// runOn runs a command on a host; user "" is root.
func (c *cluster) runOn(t *testing.T, host, user string, words ...string) result {
	t.Helper()
	return runCommand(t, "", exec.Command(program, append([]string{"exec", host, "--name", c.id, "--user", user, "--"}, words...)...))
}

// runScript runs a script on ctl as alice in a folder that all hosts have.
func (c *cluster) runScript(t *testing.T, script string) result {
	t.Helper()
	return runCommand(t, "", exec.Command(program, "exec", "ctl", "--name", c.id, "--user", "alice", "--",
		"bash", "-c", "cd /shared/live; "+script))
}

// submitJob hands a script to sbatch and returns the job's number.
func (c *cluster) submitJob(t *testing.T, options, script string) string {
	t.Helper()
	r := runCommand(t, "#!/bin/bash\n"+script, exec.Command(program, "exec", "ctl", "--name", c.id, "--user", "alice", "--",
		"bash", "-c", "cd /shared/live && sbatch --parsable "+options))
	return strings.TrimSpace(r.mustSucceed(t))
}

// waitForEnd waits for a job's end and returns scontrol's description of the job, and
// the job's log.
func (c *cluster) waitForEnd(t *testing.T, job string) (about, log string) {
	t.Helper()
	waitFor(t, time.Minute, func() (bool, string) {
		about = c.runOn(t, "ctl", "", "scontrol", "-o", "show", "job", job).mustSucceed(t)
		for _, s := range []string{"PENDING", "RUNNING", "COMPLETING"} {
			if strings.Contains(about, "JobState="+s) {
				return false, about
			}
		}
		return true, ""
	})
	b, err := os.ReadFile(filepath.Join(c.shared, "slurm-"+job+".out"))
	if err != nil {
		t.Fatal(err)
	}
	return about, string(b)
}

// readHeard returns the requests of a job that proxyd got.
func (c *cluster) readHeard(t *testing.T, job string) (joins []nodesocket.Join, ends []receivedRequest) {
	t.Helper()
	for _, node := range []string{"n1", "n2"} {
		f, err := os.Open(filepath.Join(c.shared, node+".heard"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var h receivedRequest
			if err := json.Unmarshal(lines.Bytes(), &h); err != nil {
				t.Fatal(err)
			}
			switch {
			case h.Join != nil && fmt.Sprint(h.Join.Job) == job:
				joins = append(joins, *h.Join)
			case h.Join == nil && fmt.Sprint(h.End) == job:
				ends = append(ends, h)
			}
		}
	}
	return joins, ends
}

func waitFor(t *testing.T, within time.Duration, ok func() (bool, string)) {
	t.Helper()
	for end := time.Now().Add(within); ; time.Sleep(100 * time.Millisecond) {
		done, said := ok()
		if done {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", within, said)
		}
	}
}
