//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster drives the minicluster program as a person would, and real Slurm
// through minicluster. The tests need root; they run under the build tag "cluster".
//
// A test that looks at the whole machine, for leftovers, runs alone; the other tests are parallel and have clusters of
// their own.
package cluster

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// built is the minicluster that `make build` makes. program is the minicluster under test: a copy of built, by which the
// clusters of this package differ from clusters that other tests raise with built at the same time.
const built = "../../contrib/minicluster/minicluster"

var program string

var (
	seed  = flag.Int64("seed", time.Now().UnixNano(), "seed of the random tests; printed when one fails")
	suite = flag.String("suite", newest, "Debian release, and so the Slurm, of the clusters with singularity-slurm: forky, trixie or bookworm")
)

// newest is the default suite of clusters.
const newest = "forky"

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "tests/cluster needs root")
		os.Exit(1)
	}
	folder, err := copyProgram()
	if err != nil {
		fmt.Fprintln(os.Stderr, "build minicluster first (make build):", err)
		os.Exit(1)
	}
	program = filepath.Join(folder, "minicluster")
	code := m.Run()
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

// copyProgram copies built into a new folder of bin, and returns the folder. minicluster finds the source tree from the
// place of its program.
func copyProgram() (string, error) {
	data, err := os.ReadFile(built)
	if err != nil {
		return "", err
	}
	folder, err := os.MkdirTemp("../../bin", "tests-cluster-")
	if err != nil {
		return "", err
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return "", err
	}
	return folder, os.WriteFile(filepath.Join(folder, "minicluster"), data, 0o755)
}

// result is the output and the exit code of a run of minicluster.
type result struct {
	out, err string
	code     int
}

// runMinicluster runs minicluster and waits for its end. Background processes of minicluster must not keep its streams
// open, or runMinicluster waits for them, too.
func runMinicluster(t *testing.T, args ...string) result {
	t.Helper()
	return runMiniclusterWith(t, "", args...)
}

func runMiniclusterWith(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	return runProgram(t, exec.Command(program, args...), stdin)
}

func runProgram(t *testing.T, cmd *exec.Cmd, stdin string) result {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(10*time.Minute, // a cold root file system may have to be built first
		func() { cmd.Process.Kill() })
	defer timer.Stop()
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("minicluster %q: %v", cmd.Args, err)
	}
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// mustSucceed fails the test unless the run succeeded, and returns its standard output.
func (r result) mustSucceed(t *testing.T) string {
	t.Helper()
	if r.code != 0 {
		t.Fatalf("exit code %d\n%s%s", r.code, r.out, r.err)
	}
	return r.out
}

// raised is a cluster that a test has for itself.
type raised struct{ name string }

// raiseCluster brings a cluster up, and down when the test is over.
func raiseCluster(t *testing.T, name string, args ...string) raised {
	t.Helper()
	c := raised{name}
	runMinicluster(t, append([]string{"up", "--name", name}, args...)...).mustSucceed(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("cluster %s:\n%s", name, c.logTails())
		}
		runMinicluster(t, "down", "--name", name).mustSucceed(t)
	})
	return c
}

// runOn runs a command on a host; user "" is root.
func (c raised) runOn(t *testing.T, hostName, user string, command ...string) result {
	t.Helper()
	return runMinicluster(t, append([]string{"exec", hostName, "--name", c.name, "--user", user, "--"}, command...)...)
}

// runScript runs a shell script on ctl as alice and returns the output.
func (c raised) runScript(t *testing.T, script string) string {
	t.Helper()
	return strings.TrimSpace(c.runOn(t, "ctl", "alice", "bash", "-euc", script).mustSucceed(t))
}

func (c raised) logTails() string {
	var b strings.Builder
	logs, _ := filepath.Glob(filepath.Join("/var/lib/minicluster", c.name, "logs/*/slurm*.log"))
	for _, l := range logs {
		tail, _ := exec.Command("tail", "-n", "15", l).Output()
		fmt.Fprintf(&b, "==> %s\n%s", l, tail)
	}
	return b.String()
}

// waitFor waits until ok says yes, and fails with the last answer of ok.
func waitFor(t *testing.T, within time.Duration, ok func() (bool, string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	for {
		done, said := ok()
		if done {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not within %s: %s", within, said)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
