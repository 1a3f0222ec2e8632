//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// traces are the parts of a cluster that could be left on a machine.
type traces struct {
	namespaces []string // "pid:[4026531836]" and so on, of every process
	mounts     []string
	links      []string
	processes  []string // that belong to minicluster, by their program
}

func listTraces(t *testing.T) traces {
	t.Helper()
	var tr traces
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range all {
		if ofAnotherLane(filepath.Base(p)) || ofAnother(t, filepath.Base(p)) {
			continue
		}
		spaces, _ := filepath.Glob(p + "/ns/*")
		for _, ns := range spaces {
			if id, err := os.Readlink(ns); err == nil {
				tr.namespaces = append(tr.namespaces, id)
			}
		}
	}
	slices.Sort(tr.namespaces)
	tr.namespaces = slices.Compact(tr.namespaces)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	tr.mounts = strings.Split(string(mounts), "\n")
	links, err := os.ReadDir("/sys/class/net")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		tr.links = append(tr.links, l.Name())
	}
	tr.processes = listProcesses(t)
	return tr
}

// ofAnotherLane tells whether a process belongs to tests that run beside these: tests/tally gives each part of a test
// run its lane.
func ofAnotherLane(pid string) bool {
	const variable = "TALLY_LANE="
	ours, known := os.LookupEnv(strings.TrimSuffix(variable, "="))
	environ, _ := os.ReadFile(filepath.Join("/proc", pid, "environ"))
	for _, v := range strings.Split(string(environ), "\x00") {
		if lane, ok := strings.CutPrefix(v, variable); ok {
			return known && lane != ours
		}
	}
	return false
}

// ofAnother tells whether a process is of a cluster that another minicluster has raised.
func ofAnother(t *testing.T, pid string) bool {
	t.Helper()
	of := miniclusterOf(t, pid)
	return of != nil && !os.SameFile(of, ourProgram(t))
}

// isOfTestCluster tells whether a process is of a cluster that the minicluster under test has raised.
func isOfTestCluster(t *testing.T, pid string) bool {
	t.Helper()
	of := miniclusterOf(t, pid)
	return of != nil && os.SameFile(of, ourProgram(t))
}

func ourProgram(t *testing.T) os.FileInfo {
	t.Helper()
	ours, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	return ours
}

// miniclusterOf is the program file of the minicluster that a process or one of its ancestors runs, or nil.
func miniclusterOf(t *testing.T, pid string) os.FileInfo {
	t.Helper()
	for pid != "0" && pid != "1" {
		exe := filepath.Join("/proc", pid, "exe")
		if to, _ := os.Readlink(exe); filepath.Base(to) == filepath.Base(program) {
			if st, err := os.Stat(exe); err == nil {
				return st
			}
			return nil // it has ended
		}
		stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
		if err != nil {
			return nil // it has ended
		}
		// The name, in parentheses, may contain spaces and parentheses. The parent's PID is the second field after the
		// name.
		rest := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		pid = rest[1]
	}
	return nil
}

// listProcesses lists the processes that run our program: `up`, keepers, hosts, builders. The
// daemons of a host are in namespaces of their own and show up there.
func listProcesses(t *testing.T) []string {
	t.Helper()
	ours := ourProgram(t)
	var found []string
	exes, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, exe := range exes {
		if st, err := os.Stat(exe); err == nil && os.SameFile(st, ours) {
			cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(exe), "cmdline"))
			found = append(found, filepath.Base(filepath.Dir(exe))+" "+strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	return found
}

// addedSince describes the traces that are in now and not in before.
func (before traces) addedSince(now traces) string {
	var words []string
	for _, kind := range []struct {
		name        string
		before, now []string
	}{
		{"namespace", before.namespaces, now.namespaces},
		{"mount", before.mounts, now.mounts},
		{"link", before.links, now.links},
		{"process", before.processes, now.processes},
	} {
		for _, x := range kind.now {
			if !slices.Contains(kind.before, x) {
				words = append(words, kind.name+" "+x)
			}
		}
	}
	return strings.Join(words, "\n")
}

// assertNothingLeft gives the kernel a moment to take the namespaces apart, and other programs of the machine that have
// just begun one to end.
func (before traces) assertNothingLeft(t *testing.T) {
	t.Helper()
	waitFor(t, time.Minute, func() (bool, string) {
		left := before.addedSince(listTraces(t))
		return left == "", "left behind:\n" + left
	})
}

func TestDownLeavesNothing(t *testing.T) {
	before := listTraces(t)
	runMinicluster(t, "up", "--name", "t-trace", "--nodes", "2", "--gpus", "2").mustSucceed(t)
	if before.addedSince(listTraces(t)) == "" {
		t.Fatal("a running cluster leaves no traces: this test sees nothing")
	}
	runMinicluster(t, "exec", "n1", "--name", "t-trace", "--", "bash", "-c", "setsid sleep 1000 >/dev/null 2>&1 & mount -t tmpfs x /mnt; ip link add br9 type bridge").mustSucceed(t)
	runMinicluster(t, "down", "--name", "t-trace").mustSucceed(t)
	before.assertNothingLeft(t)
	left, _ := filepath.Glob("/var/lib/minicluster/t-trace*")
	if len(left) > 0 {
		t.Errorf("left behind: %s", left)
	}
}

// TestDownLeavesNoGroups: a job's cgroups are in the machine's hierarchy, so the end of a namespace does not remove
// them.
func TestDownLeavesNoGroups(t *testing.T) {
	var groups []string
	t.Run("a job runs", func(t *testing.T) { // its cluster is down at its end
		c := raiseProtected(t, "t-groups", "--nodes", "1")
		job := c.submitJob(t, "--singularity", "echo here; srun sleep 1000")
		c.waitForLine(t, job, "here")
		waitFor(t, 30*time.Second, func() (bool, string) {
			groups = ourGroups(t)
			return len(groups) > 0, "the job has no cgroup: this test sees nothing"
		})
	})
	for _, g := range groups {
		if _, err := os.Stat(g); err == nil {
			t.Errorf("left behind: %s", g)
		}
	}
}

// ourGroups are the cgroups of proxyd with processes of this package's clusters in them or below.
func ourGroups(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(listCgroups(t), func(g string) bool {
		return !slices.ContainsFunc(walkExisting(t, g), func(path string) bool {
			pids, _ := os.ReadFile(path) // the group may have ended
			return filepath.Base(path) == "cgroup.procs" && slices.ContainsFunc(strings.Fields(string(pids)), func(pid string) bool { return isOfTestCluster(t, pid) })
		})
	})
}

// listCgroups returns all cgroups that are proxyd's.
func listCgroups(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(walkExisting(t, "/sys/fs/cgroup"), func(path string) bool {
		return !strings.HasPrefix(filepath.Base(path), "sing-")
	})
}

// walkExisting lists all paths below a folder, without those that are removed meanwhile.
func walkExisting(t *testing.T, folder string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
		if err == nil {
			found = append(found, path)
		} else if !os.IsNotExist(err) {
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestKilledAnywhere kills the program with SIGKILL at 20 random moments: while the program
// raises a cluster (`up` itself, the keeper or a host's first process) and after.
func TestKilledAnywhere(t *testing.T) {
	random := rand.New(rand.NewSource(*seed))
	t.Logf("replay with: go test -tags cluster -run TestKilledAnywhere ./tests/cluster -seed %d", *seed)
	before := listTraces(t)
	began := time.Now()
	runMinicluster(t, "up", "--name", "t-kill").mustSucceed(t)
	whole := time.Since(began)
	runMinicluster(t, "down", "--name", "t-kill").mustSucceed(t)
	before.assertNothingLeft(t)

	for round := range 20 {
		delay := time.Duration(random.Int63n(int64(whole * 5 / 4)))
		whom := []string{"up", "keeper", "all"}[random.Intn(3)]
		t.Run(fmt.Sprintf("%02d %s after %s", round, whom, delay.Round(time.Millisecond)), func(t *testing.T) {
			killed := upAndKill(t, delay, whom)
			if killed {
				before.assertNothingLeft(t)
			}
		})
	}
	runMinicluster(t, "up", "--name", "t-kill").mustSucceed(t) // cleans up after all of them
	runMinicluster(t, "down", "--name", "t-kill").mustSucceed(t)
	before.assertNothingLeft(t)
}

// upAndKill starts `up`, waits for delay and kills `up`, the keeper, or all processes of the cluster. If `up` has ended
// by then, upAndKill kills the cluster's keeper: the cluster does not depend on `up` any more.
func upAndKill(t *testing.T, delay time.Duration, whom string) (killed bool) {
	t.Helper()
	cmd := exec.Command(program, "up", "--name", "t-kill")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { cmd.Wait(); close(done) }()
	select {
	case <-done:
		whom = "keeper"
	case <-time.After(delay):
	}
	for _, p := range listProcesses(t) {
		pid, args, _ := strings.Cut(p, " ")
		if !strings.Contains(args, "t-kill") {
			continue
		}
		isUp := strings.Contains(args, " up ")
		isKeeper := strings.HasPrefix(args, "minicluster keeper ")
		if whom == "all" || whom == "up" && isUp || whom == "keeper" && isKeeper {
			killProcess(t, pid)
			killed = true
		}
	}
	if whom == "keeper" && !killed { // the keeper was not there yet
		cmd.Process.Kill()
		killed = true
	}
	<-done
	return killed
}

func killProcess(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := os.FindProcess(n); err == nil {
		p.Kill()
	}
}

// TestDownOfTheStubborn: a keeper that does not answer, a keeper without a
// socket, a keeper without its lock, and a keeper that is still being raised.
func TestDownOfTheStubborn(t *testing.T) {
	before := listTraces(t)
	down := func(t *testing.T) {
		t.Helper()
		runMinicluster(t, "down", "--name", "t-stub").mustSucceed(t)
		before.assertNothingLeft(t)
	}
	for _, file := range []string{"t-stub/control.sock", "t-stub.lock"} {
		runMinicluster(t, "up", "--name", "t-stub", "--nodes", "1").mustSucceed(t)
		if err := os.Remove("/var/lib/minicluster/" + file); err != nil {
			t.Fatal(err)
		}
		down(t)
	}
	runMinicluster(t, "up", "--name", "t-stub", "--nodes", "1").mustSucceed(t)
	exec.Command("pkill", "-STOP", "-f", "^minicluster keeper t-stub").Run()
	down(t)

	cmd := exec.Command(program, "up", "--name", "t-stub")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, 10*time.Second, func() (bool, string) {
		_, err := os.Stat("/var/lib/minicluster/t-stub/control.sock")
		return err == nil, "no socket"
	})
	runMinicluster(t, "down", "--name", "t-stub").mustSucceed(t)
	cmd.Wait()
	before.assertNothingLeft(t)
}

// TestUpAfterUpWasStopped: a person presses Ctrl-C during `up`, or runs `up` twice.
func TestUpAfterUpWasStopped(t *testing.T) {
	before := listTraces(t)
	cmd := exec.Command(program, "up", "--name", "t-int")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, 10*time.Second, func() (bool, string) {
		return len(listProcesses(t)) > len(before.processes)+1, "no keeper"
	})
	again := runMinicluster(t, "up", "--name", "t-int")
	if again.code != 1 || !strings.Contains(again.err, "cluster t-int is already running; end it with: minicluster down --name t-int") {
		t.Errorf("a second up: code %d, said %q", again.code, again.err)
	}
	cmd.Process.Signal(os.Interrupt)
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("interrupted up: exit code %d, want 130", code)
	}
	before.assertNothingLeft(t)
}
