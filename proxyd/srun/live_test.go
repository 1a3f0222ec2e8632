// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// These tests run on a node of a cluster, with the real srun:
//
//	go test -c -o DIR/srun.test ./proxyd/srun
//	make -C slurm-spank/srun O=DIR
//	minicluster up --suite forky --nodes 2 --name srun-a    # DIR is below /var/lib/minicluster/srun-a/shared
//	minicluster exec n1 --name srun-a -- env SRUN_TOOLS=DIR DIR/srun.test -test.v

// clusterRelease returns the Slurm release of the cluster, "26.05".
func clusterRelease(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("srun", "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	word := strings.Fields(string(out))[1] // "slurm-wlm 26.05.5"
	parts := strings.SplitN(word, ".", 3)
	return parts[0] + "." + parts[1]
}

// job is a running job of the user's.
type job struct {
	id  string
	env []string // of its batch step
}

// newJob submits a job that only waits, and returns when the job runs.
func newJob(t testing.TB, args ...string) job {
	t.Helper()
	needSlurm(t)
	dir, err := os.MkdirTemp("/shared", "srun-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	args = append([]string{"--parsable", "-o", "/dev/null"}, args...)
	cmd := exec.Command("sbatch", append(args, "--wrap", "env -0 >"+dir+"/new && mv "+dir+"/new "+dir+"/env && exec sleep 10000")...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: group}}
	cmd.Dir, cmd.Env, cmd.Stderr = "/", []string{"PATH=/usr/bin:/bin", "HOME=/shared/home/alice", "USER=alice"}, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	j := job{id: strings.TrimSpace(string(out))}
	t.Cleanup(func() {
		exec.Command("scancel", j.id).Run()
		waitFor(t, 60*time.Second, "the job is gone", func() bool {
			out, _ := exec.Command("squeue", "-h", "-j", j.id).Output()
			return len(out) == 0
		})
	})
	waitFor(t, 60*time.Second, "the job runs", func() bool {
		b, err := os.ReadFile(dir + "/env")
		if err != nil {
			return false
		}
		j.env = strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
		return true
	})
	return j
}

// show is a task's program: it prints the task's rank, its host and its step's key.
const show = `echo $SLURM_PROCID $(hostname) $SINGULARITY_SLURM_STEP`

func sortLines(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestLayout: however a step was started, its tasks come to the wanted nodes.
func TestLayout(t *testing.T) {
	j := newJob(t, "-N2", "-n8")
	s := newServer(t, "")
	for _, tc := range []struct {
		name  string
		args  string
		env   string
		tasks string
		over  bool
	}{
		{name: "plain", args: "-n4", tasks: "n2 n1 n1 n2"},
		{name: "all of the job", tasks: "n1 n2 n1 n2 n1 n2 n1 n2"},
		{name: "one node", args: "-N2 -n2", tasks: "n2 n2"},
		{name: "one task", args: "-N1 -n1 -w n1", tasks: "n2"},
		{name: "told otherwise", args: "-n4 --ntasks-per-node=2 -m cyclic:cyclic -x n2", tasks: "n1 n2 n2 n2"},
		{name: "relative", args: "-N1 -r1 -n2", tasks: "n1 n1"},
		{name: "by variables", args: "-n3", env: "SLURM_NTASKS_PER_NODE=1 SLURM_DISTRIBUTION=block SLURM_HOSTFILE=/nowhere", tasks: "n2 n2 n1"},
		{name: "uneven", args: "-n5 --nodelist=n[1-2]", tasks: "n2 n2 n2 n1 n2"},
		{name: "more than CPUs", args: "-n6", tasks: "n1 n1 n1 n1 n1 n1", over: true},
		{name: "exact", args: "-n2 --exact -c1", tasks: "n2 n1"},
		{name: "overlap", args: "-n2 --overlap", tasks: "n2 n1"},
		{name: "no environment", args: "-n2 --export=NONE", tasks: "n2 n1"},
		{name: "some environment", args: "-n2 --export=HOME,A=b", tasks: "n2 n1"},
		{name: "no environment by a variable", args: "-n2", env: "SLURM_EXPORT_ENV=NONE", tasks: "n2 n1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tasks := strings.Fields(tc.tasks)
			s.mu.Lock()
			s.plan = func(r RewriteParameters) RewriteParameters {
				r.Key, r.Tasks, r.Overcommit, r.Release = "s9", tasks, tc.over, clusterRelease(t)
				return r
			}
			s.mu.Unlock()
			args := append(strings.Fields(tc.args), "/bin/sh", "-c", show)
			out, errs, how := caller{args: args, env: append(strings.Fields(tc.env), j.env...)}.runCall(t)
			s.expectRequest("srun")
			var want []string
			for i, node := range tasks {
				want = append(want, fmt.Sprint(i, " ", node, " s9"))
			}
			if sortLines(out) != strings.Join(want, "\n") || errs != "" || exitCodeOf(how) != 0 {
				t.Errorf("got %q, %q, %d, want %q", sortLines(out), errs, exitCodeOf(how), want)
			}
		})
	}
}

// TestFreshSteps: calls in which names of nodes are only translated.
func TestFreshSteps(t *testing.T) {
	j := newJob(t, "-N2", "--ntasks-per-node=2")
	s := newServer(t, "")
	hosts := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, []byte("# mine\nold1\nold2\nold1\nold2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	os.Chmod(filepath.Dir(hosts), 0o755)
	os.Chmod(filepath.Dir(filepath.Dir(hosts)), 0o755)
	s.mu.Lock()
	s.plan = func(r RewriteParameters) RewriteParameters {
		r.Nodes = map[string]string{"old1": "n2", "old2": "n1"}
		r.Job = environmentMap(j.env)
		r.Was = maps.Clone(r.Job)
		r.Was["SLURM_JOB_NODELIST"] = "old[1-2]"
		r.Was["SLURM_NODELIST"] = "old[1-2]"
		r.Key, r.Release = "s1", clusterRelease(t)
		return r
	}
	s.mu.Unlock()
	before := environmentMap(j.env)
	before["SLURM_JOB_NODELIST"], before["SLURM_NODELIST"] = "old[1-2]", "old[1-2]"
	for _, tc := range []struct{ name, args, env, want string }{
		{"nothing said", "-n4 -l", "", "0: 0 n1 s1\n1: 1 n1 s1\n2: 2 n2 s1\n3: 3 n2 s1"},
		{"a node", "-N1 -n2 -w old1", "", "0 n2 s1\n1 n2 s1"},
		{"not a node", "-N1 -n1 -x old[1]", "", "0 n1 s1"},
		{"both", "-N2 -n2 --nodel=old[1-2]", "", "0 n1 s1\n1 n2 s1"},
		{"a file", "-n4 -m arbitrary -w " + hosts, "", "0 n2 s1\n1 n1 s1\n2 n2 s1\n3 n1 s1"},
		{"a file by a variable", "-n4", "SLURM_HOSTFILE=" + hosts, "0 n2 s1\n1 n1 s1\n2 n2 s1\n3 n1 s1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args := append(strings.Fields(tc.args), "/bin/sh", "-c", show)
			out, errs, how := caller{args: args, env: append(strings.Fields(tc.env), environmentList(before)...)}.runCall(t)
			s.expectRequest("srun")
			if sortLines(out) != tc.want || errs != "" || exitCodeOf(how) != 0 {
				t.Errorf("got %q, %q, %d, want %q", sortLines(out), errs, exitCodeOf(how), tc.want)
			}
		})
	}
}

// TestParallelSteps: steps at the same time share the job as with plain srun.
func TestParallelSteps(t *testing.T) {
	j := newJob(t, "-N2", "-n8")
	s := newServer(t, "")
	layouts := []string{"n2 n1", "n1 n1", "n2 n2"}
	s.mu.Lock()
	s.plan = func(r RewriteParameters) RewriteParameters {
		r.Tasks, r.Release = strings.Fields(layouts[(s.next-1)%3]), clusterRelease(t)
		return r
	}
	s.mu.Unlock()
	dir, err := os.MkdirTemp("/shared", "srun-meet-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	os.Chmod(dir, 0o777)
	// Six tasks end when all six have started: the steps run at the same time or never end.
	meet := fmt.Sprintf(`: >%s/$SINGULARITY_SLURM_STEP.$SLURM_PROCID; while [ $(ls %s | wc -l) -lt 6 ]; do sleep 0.1; done; hostname`, dir, dir)
	var cmds []*exec.Cmd
	for range 3 {
		cmd := caller{args: []string{"-n2", "--exact", "-c1", "/bin/sh", "-c", meet}, env: j.env}.newCommand()
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmds = append(cmds, cmd)
	}
	for _, cmd := range cmds {
		if how := waitForCommand(t, cmd); exitCodeOf(how) != 0 {
			t.Errorf("exit code of a step = %d, want 0", exitCodeOf(how))
		}
	}
}

// TestAsSrun: exit codes, input, output and messages are the same as srun's.
func TestAsSrun(t *testing.T) {
	j := newJob(t, "-N2", "-n4")
	newServer(t, "")
	big := strings.Repeat("0123456789abcde\n", 1<<18) // 4 MiB
	for _, tc := range []struct {
		args string
		in   string
	}{
		{args: "--version"},
		{args: "--help"},
		{args: "--usage"},
		{args: "--no-such-option"},
		{args: "-N1 -n1 true"},
		{args: "-n1 -w n2 false"},
		{args: "-n2 -l sh -c 'exit $SLURM_PROCID'"},
		{args: "-N1 -n1 -w n2 sh -c 'kill -SEGV $$'"},
		{args: "-N1 -n1 -w n1 no-such-program"},
		{args: "-n99 true"},
		{args: "-N1 -n1 cat", in: big},
		{args: "-N2 -n2 -l pwd"},
		{args: "-N1 -n1 sh -c 'id; umask; ulimit -n'"},
		{args: "-N1 -n1 -D /usr pwd"},
		{args: "-n1 --mpi=list"},
	} {
		words := strings.Fields(tc.args)
		if before, script, ok := strings.Cut(tc.args, " '"); ok {
			words = append(strings.Fields(before), strings.TrimSuffix(script, "'"))
		}
		c := caller{args: words, env: j.env, in: strings.NewReader(tc.in), dir: "/usr/lib"}
		out, errs, how := c.runCall(t)
		c.in = strings.NewReader(tc.in)
		cmd := c.newCommand()
		cmd.Path, cmd.Args = "/usr/bin/srun", append([]string{"srun"}, words...)
		var plainOut, plainErrs strings.Builder
		cmd.Stdout, cmd.Stderr = &plainOut, &plainErrs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		plain := waitForCommand(t, cmd)
		if sortLines(out) != sortLines(plainOut.String()) || hideSteps(errs) != hideSteps(plainErrs.String()) || how != plain {
			t.Errorf("%s: got %.200q, %q, %d, plain srun: %.200q, %q, %d", tc.args, out, errs, exitCodeOf(how), plainOut.String(), plainErrs.String(), exitCodeOf(plain))
		}
	}
}

// hideSteps hides the words that differ from step to step, and the order of lines of different nodes.
func hideSteps(errs string) string {
	var out []string
	for line := range strings.Lines(errs) {
		if strings.Contains(line, "Step created for") || strings.Contains(line, "temporarily disabled") {
			continue // srun waited for the step before to end
		}
		line = strings.Replace(line, tools.srun, "srun", 1)
		words := strings.Fields(line)
		for i, w := range words {
			if strings.HasPrefix(w, "StepId=") || strings.HasPrefix(w, "[20") {
				words[i] = "" // step, time
			}
		}
		out = append(out, strings.Join(words, " "))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// TestSignalsToSteps: a signal to sing-srun has the effect of that signal to srun.
func TestSignalsToSteps(t *testing.T) {
	j := newJob(t, "-N2", "-n4")
	s := newServer(t, "")
	for _, tc := range []struct {
		sig  syscall.Signal
		want int
		out  string
	}{
		{syscall.SIGUSR1, 0, "got"},
		{syscall.SIGTERM, 137, ""},
	} {
		cmd := caller{args: []string{"-N1", "-n1", "/bin/bash", "-c", "trap 'echo got; exit 0' USR1; echo ready; while :; do sleep 0.05; done"}, env: j.env}.newCommand()
		r, w, _ := os.Pipe()
		defer r.Close()
		var errs strings.Builder
		cmd.Stdout, cmd.Stderr = w, &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		w.Close()
		s.expectRequest("srun")
		waitForReady(t, r)
		cmd.Process.Signal(tc.sig)
		s.expectRequest("signal")
		how := waitForCommand(t, cmd)
		buf := make([]byte, 100)
		n, _ := r.Read(buf)
		if out := strings.TrimSpace(string(buf[:n])); exitCodeOf(how) != tc.want || out != tc.out {
			t.Errorf("after signal %v: stdout %q, stderr %q, exit code %d", tc.sig, out, errs.String(), exitCodeOf(how))
		}
	}
}

// TestKilledSteps: sing-srun is killed, and its step ends.
func TestKilledSteps(t *testing.T) {
	j := newJob(t, "-N2", "-n4")
	s := newServer(t, "")
	cmd := caller{args: []string{"-n2", "/bin/sh", "-c", "echo ready; exec sleep 1000"}, env: j.env}.newCommand()
	r, w, _ := os.Pipe()
	defer r.Close()
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	run := s.expectRequest("srun").run
	waitForReady(t, r)
	cmd.Process.Kill()
	cmd.Wait()
	if _, err := run.Wait(testDeadline(t)); err != nil {
		t.Fatal(err)
	}
	waitFor(t, 60*time.Second, "the step is gone", func() bool {
		out, err := exec.Command("squeue", "-h", "-s", "-j", j.id, "-o", "%i").Output()
		return err == nil && !strings.Contains(string(out), j.id+".0")
	})
}
