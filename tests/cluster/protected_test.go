//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// protected is a cluster with singularity-slurm. Its methods are the steps of the tests.
type protected struct{ raised }

// raiseProtected brings a cluster of the suite that -suite names up.
func raiseProtected(t *testing.T, name string, args ...string) protected {
	t.Helper()
	return raiseProtectedOf(t, *suite, name, args...)
}

func raiseProtectedOf(t *testing.T, suite, name string, args ...string) protected {
	t.Helper()
	if suite != newest {
		name += "-" + suite
	}
	c := protected{raiseCluster(t, name, append([]string{"--singularity", "--suite", suite}, args...)...)}
	t.Cleanup(func() {
		if t.Failed() {
			for _, n := range []string{"n1", "n2", "n3"} {
				log, _ := os.ReadFile(filepath.Join("/var/lib/minicluster", name, "logs", n, "proxyd.log"))
				t.Logf("proxyd on %s:\n%s", n, log)
			}
		}
	})
	return c
}

// submitJob submits a script as alice and returns the job's id.
func (c protected) submitJob(t *testing.T, options, script string) string {
	t.Helper()
	return c.runScript(t, fmt.Sprintf("cd; sbatch --parsable --output=%%j.log %s <<'SCRIPT'\n#!/bin/bash\n%s\nSCRIPT", options, script))
}

// runAsRoot runs a command as root on ctl.
func (c protected) runAsRoot(t *testing.T, command string) string {
	t.Helper()
	return strings.TrimSpace(c.runOn(t, "ctl", "", "bash", "-euc", command).mustSucceed(t))
}

func (c protected) showColumn(t *testing.T, job, column string) string {
	t.Helper()
	return c.runAsRoot(t, fmt.Sprintf("squeue --noheader --states=all --jobs=%s --Format=%s:200 | head -n 1", job, column))
}

// jobLog returns the job's log, without the lines that Slurm adds at the end of a run.
func (c protected) jobLog(job string) string {
	b, _ := os.ReadFile(filepath.Join("/var/lib/minicluster", c.name, "shared/home/alice", job+".log"))
	return strings.TrimSpace(slurmsOwn.ReplaceAllString(string(b), ""))
}

// slurmsOwn matches lines of slurmd and srun about a job that is being killed. Slurm writes them for unprotected jobs,
// too. 22.05 has the name of the node after slurmstepd.
var slurmsOwn = regexp.MustCompile(`(?m)^(\d+: )?(slurmstepd(-\S+)?: |srun: |\[[-0-9T:.]+\] )(error: \*\*\* |Job step aborted|got SIGCONT|forcing job termination).*\n`)

// waitForLine waits until the job's log has a line.
func (c protected) waitForLine(t *testing.T, job, line string) {
	t.Helper()
	waitFor(t, 3*time.Minute, func() (bool, string) {
		log := c.jobLog(job)
		return strings.Contains("\n"+log+"\n", "\n"+line+"\n"), fmt.Sprintf("job %s: no %q in:\n%s", job, line, log)
	})
}

// restartJob has a job that was requeued start at once, on other nodes if exclude is set.
func (c protected) restartJob(t *testing.T, job, exclude string) {
	t.Helper()
	waitFor(t, 90*time.Second, func() (bool, string) {
		s := c.showColumn(t, job, "State")
		return s == "PENDING" || s == "REQUEUE_HOLD", "job " + job + ": " + s
	})
	// A job that starts in the second of its requeue has a revoked credential (Slurm's).
	c.runAsRoot(t, fmt.Sprintf("sleep 2; scontrol update JobId=%s StartTime=now ExcNodeList=%s; scontrol release %s", job, exclude, job))
}

// waitForEnd waits for a job's end and returns its state and exit code.
func (c protected) waitForEnd(t *testing.T, job string) string {
	t.Helper()
	var s string
	waitFor(t, 120*time.Second, func() (bool, string) {
		s = c.runAsRoot(t, fmt.Sprintf("squeue --noheader --states=all --jobs=%s --Format=State:.20,exit_code:.10,Comment:.300", job))
		return strings.Contains(s, "COMPLETED") || strings.Contains(s, "FAILED") || strings.Contains(s, "CANCELLED"), "job " + job + ": " + s
	})
	return s
}

// checkCompleted waits for a job's end, and checks that the job is COMPLETED and what its log has.
func (c protected) checkCompleted(t *testing.T, job, log string) {
	t.Helper()
	if s := c.waitForEnd(t, job); !strings.Contains(s, "COMPLETED") {
		t.Errorf("the job ended as %s, want COMPLETED", s)
	}
	if got := c.jobLog(job); got != log {
		t.Errorf("the job's log is not as expected:\n%s", got)
	}
}

// count is a script that counts in a loop; its state is in the shell.
const count = `sum=0; for i in $(seq 1 60); do sum=$((sum + i)); echo $i; sleep 0.15; done; echo sum $sum on $(hostname)`

// undisturbedOutput returns the output of the program on a node in an undisturbed run.
func undisturbedOutput(node string) string {
	var b strings.Builder
	for i := 1; i <= 60; i++ {
		fmt.Fprintln(&b, i)
	}
	fmt.Fprintf(&b, "sum 1830 on %s", node)
	return b.String()
}

// requeueSteps requeues a job of two nodes while a step runs on both, and has the job go on without the node n1: each
// step gives its output and its exit code once.
func (c protected) requeueSteps(t *testing.T) {
	t.Helper()
	job := c.submitJob(t, "--singularity -N2 -w n1,n2", `
		echo "$(hostname)"
		srun -l bash -c 'for i in $(seq 30); do echo $i; sleep 0.15; done; exit $SLURM_PROCID' 2>/dev/null | sort -k1,1 -k2,2n > sorted.$SLURM_JOB_ID
		echo rc ${PIPESTATUS[0]}
		srun -n2 hostname | sort
		md5sum < sorted.$SLURM_JOB_ID`)
	waitFor(t, 30*time.Second, func() (bool, string) {
		s := c.runAsRoot(t, "squeue --noheader --steps | grep -c ' "+job+"\\.0 ' || true")
		return s == "1", "job " + job + " has no step"
	})
	c.runAsRoot(t, "sleep 1; scontrol requeue "+job)
	c.runAsRoot(t, "scontrol update ReqNodeList= JobId="+job)
	c.restartJob(t, job, "n1")
	if s := c.waitForEnd(t, job); !strings.Contains(s, "COMPLETED") {
		t.Errorf("the job's state at its end, want COMPLETED: %v", s)
	}
	var want strings.Builder
	for r := range 2 {
		for i := 1; i <= 30; i++ {
			fmt.Fprintf(&want, "%d: %d\n", r, i)
		}
	}
	lines := strings.Split(c.jobLog(job), "\n")
	sorted, _ := os.ReadFile(filepath.Join("/var/lib/minicluster", c.name, "shared/home/alice/sorted."+job))
	got := slurmsOwn.ReplaceAllString(string(sorted), "")
	if got != want.String() {
		t.Errorf("the step wrote:\n%s", got)
	}
	if len(lines) < 4 || lines[1] != "rc 1" {
		t.Errorf("log: %q", lines)
	}
}

// TestProtected: each intervention of Slurm (requeue, preemption, signals) costs a job only time.
func TestProtected(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-protected", "--nodes", "3")
	requeued := func(t *testing.T, verb string) {
		job := c.submitJob(t, "--singularity -w n1", count)
		c.waitForLine(t, job, "8")
		c.runAsRoot(t, "scontrol "+verb+" "+job)
		c.runAsRoot(t, "scontrol update ReqNodeList= JobId="+job)
		c.restartJob(t, job, "n1")
		c.waitForEnd(t, job)
		if got := c.jobLog(job); got != undisturbedOutput("n1") {
			t.Errorf("the job's log is not as expected:\n%s", got)
		}
		if n := c.showColumn(t, job, "NodeList"); n == "n1" {
			t.Errorf("restored on %s", n)
		}
	}
	for name, test := range map[string]func(*testing.T){
		"requeue":     func(t *testing.T) { requeued(t, "requeue") },
		"requeuehold": func(t *testing.T) { requeued(t, "requeuehold") },
		"emptied log": func(t *testing.T) { // no line with #SBATCH has Slurm empty the log
			job := c.submitJob(t, "", "#SBATCH --open-mode=truncate --singularity\n"+count)
			c.waitForLine(t, job, "8")
			node := c.showColumn(t, job, "NodeList")
			c.runAsRoot(t, "scontrol requeue "+job)
			c.restartJob(t, job, node)
			c.waitForEnd(t, job)
			if got := c.jobLog(job); got != undisturbedOutput(node) {
				t.Errorf("the job's log is not as expected:\n%s", got)
			}
			said := c.runOn(t, "ctl", "alice", "bash", "-c", "cd; sbatch --singularity --open-mode=truncate --output=%j.log --wrap true")
			if want := "sbatch: singularity: --open-mode=truncate: whenever the job starts again, Slurm empties its log"; said.code != 0 || !strings.Contains(said.err, want) {
				t.Errorf("sbatch: %d\n%s", said.code, said.err)
			}
		},
		"pipe opened again": func(t *testing.T) {
			job := c.submitJob(t, "--singularity -w n1", `exec 5> >(cat >piped)
				`+count+`
				echo late >/dev/fd/5; exec 5>&-; wait $!; cat piped`)
			c.waitForLine(t, job, "8")
			c.runAsRoot(t, "scontrol requeue "+job)
			c.runAsRoot(t, "scontrol update ReqNodeList= JobId="+job)
			c.restartJob(t, job, "n1")
			c.waitForEnd(t, job)
			if got := c.jobLog(job); got != undisturbedOutput("n1")+"\nlate" {
				t.Errorf("the job's log is not as expected:\n%s", got)
			}
		},
		"stopped by itself": func(t *testing.T) { // Slurm sends SIGCONT before the SIGTERM of a requeue
			job := c.submitJob(t, "--singularity", `sleep 1000 & child=$!; kill -STOP $child; echo stopped
				for i in $(seq 40); do sleep 0.15; done; sed -n 's/^State:\s*\(.\).*/\1/p' /proc/$child/status; { kill -9 $child; wait $child; } 2>/dev/null || true`)
			c.waitForLine(t, job, "stopped")
			c.runAsRoot(t, "scontrol requeue "+job)
			c.restartJob(t, job, "")
			c.waitForEnd(t, job)
			if got := c.jobLog(job); got != "stopped\nT" {
				t.Errorf("the job's log is not as expected:\n%s", got)
			}
		},
		"suspended": func(t *testing.T) {
			job := c.submitJob(t, "--singularity", count)
			for _, line := range []string{"8", "24"} {
				c.waitForLine(t, job, line)
				node := c.showColumn(t, job, "NodeList")
				c.runAsRoot(t, "scontrol suspend "+job)
				// Slurm carries out a resume that follows at once before the suspension, now and then. The last thing that
				// the suspension does is that the warden is stopped.
				waitFor(t, 60*time.Second, func() (bool, string) {
					return c.runOn(t, node, "", "pgrep", "--runstates", "T", "-x", "sing-warden").code == 0, "job " + job + " is not suspended"
				})
				c.runAsRoot(t, "scontrol resume "+job)
			}
			c.waitForEnd(t, job)
			if got, node := c.jobLog(job), c.showColumn(t, job, "NodeList"); got != undisturbedOutput(node) {
				t.Errorf("the job's log is not as expected:\n%s", got)
			}
		},
		"cancel": func(t *testing.T) {
			job := c.submitJob(t, "--singularity", `trap 'echo term; exit 5' TERM; echo ready; while :; do sleep 0.1; done`)
			c.waitForLine(t, job, "ready")
			c.runAsRoot(t, "scancel "+job)
			c.waitForEnd(t, job)
			c.waitForLine(t, job, "term")
		},
		"signal": func(t *testing.T) {
			job := c.submitJob(t, "--singularity", `trap 'echo usr1; exit 6' USR1; echo ready; while :; do sleep 0.1; done`)
			c.waitForLine(t, job, "ready")
			c.runAsRoot(t, "scancel --signal=USR1 --batch "+job)
			if s := c.waitForEnd(t, job); !strings.Contains(s, "FAILED") {
				t.Errorf("the job's state at its end, want FAILED: %v", s)
			}
			c.waitForLine(t, job, "usr1")
		},
		"steps": func(t *testing.T) { c.requeueSteps(t) },
		"time limit": func(t *testing.T) {
			job := c.submitJob(t, "--singularity --time=1", strings.ReplaceAll(count, "sleep 0.15", "sleep 1.7"))
			waitFor(t, 120*time.Second, func() (bool, string) {
				s := c.showColumn(t, job, "RestartCnt")
				return s == "1", "restarts: " + s + ", " + c.showColumn(t, job, "State")
			})
			c.restartJob(t, job, "")
			c.waitForEnd(t, job)
			if got := c.jobLog(job); !strings.HasPrefix(got, undisturbedOutput("")) {
				t.Errorf("the job's log is not as expected:\n%s", got)
			}
		},
		"proxyd killed": func(t *testing.T) {
			job := c.submitJob(t, "--singularity -w n2", count)
			c.waitForLine(t, job, "5")
			c.runOn(t, "n2", "", "pkill", "-KILL", "-x", "proxyd").mustSucceed(t)
			c.waitForLine(t, job, "15")
			runMinicluster(t, "restart", "--name", c.name, "n2", "proxyd").mustSucceed(t)
			c.runAsRoot(t, "scontrol requeue "+job)
			c.restartJob(t, job, "")
			c.waitForEnd(t, job)
			if got := c.jobLog(job); got != undisturbedOutput("n2") {
				t.Errorf("the job's log is not as expected:\n%s", got)
			}
		},
		"preempted": func(t *testing.T) {
			// Only premium jobs preempt this job: jobs of the other subtests, which are standard, may come to n3 as well.
			job := c.submitJob(t, "--singularity -w n3 --exclusive --qos=standard", count)
			c.waitForLine(t, job, "8")
			other := c.submitJob(t, "-w n3 --exclusive --qos=premium", "sleep 1")
			c.waitForEnd(t, other)
			c.checkCommand(t, "alice", "singctl show "+job, 0, `checkpoint +n3 +1 \(preemption\), in`, `left +n3 +preemption$`)
			c.restartJob(t, job, "")
			c.waitForEnd(t, job)
			if got := c.jobLog(job); got != undisturbedOutput("n3") {
				t.Errorf("the job's log is not as expected:\n%s", got)
			}
		},
		"not requeueable": func(t *testing.T) {
			job := c.submitJob(t, "--singularity --no-requeue", "readlink /proc/self/ns/pid")
			c.waitForEnd(t, job)
			if got := c.jobLog(job); !strings.HasPrefix(got, "singularity: this job runs unprotected: the job was submitted with --no-requeue") {
				t.Errorf("the job's log is not as expected:\n%s", got)
			}
		},
		"unprotected": func(t *testing.T) {
			job := c.submitJob(t, "", "readlink /proc/self/ns/pid; env | grep -c SINGULARITY; exit 0")
			c.waitForEnd(t, job)
			lines := strings.Split(c.jobLog(job), "\n")
			host := strings.TrimSpace(c.runOn(t, "n1", "", "readlink", "/proc/self/ns/pid").mustSucceed(t))
			if len(lines) != 2 || lines[1] != "0" || lines[0] == "" || host == "" {
				t.Errorf("log: %q", lines)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// TestProtectedNodes: jobs whose node fails, that are preempted with a grace time, or whose node's daemon and programs
// are replaced by another release.
func TestProtectedNodes(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-nodes", "--nodes", "3")
	c.runAsRoot(t, "sacctmgr -i modify qos basic set gracetime=120")
	t.Run("grace", func(t *testing.T) {
		job := c.submitJob(t, "--singularity -w n3 --exclusive --qos=basic", "srun bash -c '"+count+"'")
		c.waitForLine(t, job, "8")
		began := time.Now()
		other := c.submitJob(t, "-w n3 --exclusive --qos=premium", "sleep 1")
		c.waitForEnd(t, other)
		if d := time.Since(began); d > 110*time.Second {
			t.Errorf("the node was given up after %s", d)
		}
		c.restartJob(t, job, "")
		c.waitForEnd(t, job)
		if got := c.jobLog(job); got != undisturbedOutput("n3") {
			t.Errorf("the job's log is not as expected:\n%s", got)
		}
	})
	t.Run("node fails", func(t *testing.T) {
		job := c.submitJob(t, "--singularity --singularity-interval=10s -N2 -w n1,n2", `
			srun --overlap -N1 -n1 --output=one bash -c 'for i in $(seq 150); do echo $i; sleep 0.15; done' &
			srun --overlap --output=step.%t bash -c 'for i in $(seq 150); do echo $SLURM_PROCID $i | tee -a file.$SLURM_PROCID; sleep 0.15; done'
			echo rc $?; wait; env | grep -c SLURM_OPEN_MODE; md5sum < file.0; md5sum < file.1`)
		waitFor(t, 40*time.Second, func() (bool, string) {
			s := c.showColumn(t, job, "Comment")
			return strings.Contains(s, "checkpoint 1"), s
		})
		runMinicluster(t, "fail", "n1", "--name", c.name).mustSucceed(t)
		c.runAsRoot(t, "scontrol update NodeName=n1 State=DOWN Reason=test")
		c.runAsRoot(t, "scontrol update ReqNodeList= JobId="+job)
		c.restartJob(t, job, "")
		c.waitForEnd(t, job)
		runMinicluster(t, "heal", "n1", "--name", c.name).mustSucceed(t)
		// The job's output after its checkpoint is gone, also the output that srun and slurmstepd wrote for the job.
		want := map[string]*strings.Builder{"one": {}, "step.0": {}, "step.1": {}, "file.0": {}, "file.1": {}}
		for i := 1; i <= 150; i++ {
			fmt.Fprintln(want["one"], i)
			for r := range 2 {
				fmt.Fprintf(want[fmt.Sprint("step.", r)], "%d %d\n", r, i)
				fmt.Fprintf(want[fmt.Sprint("file.", r)], "%d %d\n", r, i)
			}
		}
		for name, text := range want {
			got, _ := os.ReadFile(filepath.Join("/var/lib/minicluster", c.name, "shared/home/alice", name))
			if string(got) != text.String() {
				t.Errorf("file %s does not have the lines of an undisturbed run:\n%s", name, got)
			}
		}
		if got := c.jobLog(job); !strings.Contains(got, "rc 0") {
			t.Errorf("the job's log is not as expected:\n%s", got)
		}
	})
	t.Run("leader killed as it is requeued", func(t *testing.T) {
		// No task runs on n2: Slurm is done with n2 at once.
		job := c.submitJob(t, "--singularity -N2 -w n1,n2", "srun true; "+count)
		c.waitForLine(t, job, "8")
		c.runOn(t, "n1", "", "pkill", "-KILL", "-x", "proxyd").mustSucceed(t)
		c.runAsRoot(t, "scontrol requeue "+job)
		runMinicluster(t, "heal", "n1", "--name", c.name).mustSucceed(t)
		c.restartJob(t, job, "")
		c.waitForEnd(t, job)
		if got := c.jobLog(job); got != undisturbedOutput("n1") {
			t.Errorf("the job's log is not as expected:\n%s", got)
		}
	})
	t.Run("steps begin", func(t *testing.T) {
		job := c.submitJob(t, "--singularity -N2 -w n1,n2", `rm -f step.?
			for i in $(seq 60); do srun bash -c "echo $i >>step.\$SLURM_PROCID; sleep 0.05; exit \$(($i * SLURM_PROCID))"; echo $i: $?; done`)
		c.waitForLine(t, job, "3: 3")
		for range 8 {
			c.runOn(t, "ctl", "alice", "singctl", "checkpoint", job).mustSucceed(t)
		}
		c.runAsRoot(t, "scontrol requeue "+job)
		c.restartJob(t, job, "")
		c.waitForEnd(t, job)
		var log, step strings.Builder
		for i := 1; i <= 60; i++ {
			fmt.Fprintf(&log, "%[1]d: %[1]d\n", i)
			fmt.Fprintln(&step, i)
		}
		if got := c.jobLog(job); regexp.MustCompile(`(?m)^srun: .*\n`).ReplaceAllString(got+"\n", "") != log.String() {
			t.Errorf("the job's log is not as expected:\n%s", got)
		}
		for _, name := range []string{"step.0", "step.1"} {
			if got, _ := os.ReadFile(filepath.Join("/var/lib/minicluster", c.name, "shared/home/alice", name)); string(got) != step.String() {
				t.Errorf("file %s does not have the lines of an undisturbed run:\n%s", name, got)
			}
		}
		// Between freeze and commit no program of the job starts.
		still := regexp.MustCompile(`(?m)^time=(\S+) .*msg=phase job=` + job + ` .*phase=(freeze|commit) `)
		begins := regexp.MustCompile(`(?m)^time=(\S+) .*msg="program started" job=` + job + ` .*program=s0-.*`)
		logs := map[string]string{}
		for _, n := range []string{"n1", "n2"} {
			b, err := os.ReadFile(filepath.Join("/var/lib/minicluster", c.name, "logs", n, "proxyd.log"))
			if err != nil {
				t.Fatal(err)
			}
			logs[n] = string(b)
		}
		from, checkpoints := "", 0
		for _, m := range still.FindAllStringSubmatch(logs["n1"], -1) {
			if m[2] == "freeze" {
				from = m[1]
				continue
			}
			checkpoints++
			for n, log := range logs {
				for _, b := range begins.FindAllStringSubmatch(log, -1) {
					if b[1] > from && b[1] < m[1] {
						t.Errorf("between %s and %s, on %s: %s", from, m[1], n, b[0])
					}
				}
			}
		}
		if checkpoints < 8 {
			t.Errorf("%d checkpoints", checkpoints)
		}
	})
	t.Run("ended before it is back", func(t *testing.T) {
		job := c.submitJob(t, "--singularity -w n3", count)
		c.waitForLine(t, job, "5")
		c.runAsRoot(t, "scontrol requeuehold "+job)
		waitFor(t, 60*time.Second, func() (bool, string) {
			s := c.showColumn(t, job, "State")
			return s == "PENDING" || s == "REQUEUE_HOLD", s
		})
		// The job's task waits for proxyd, and is killed meanwhile: no program of the job has run.
		c.runOn(t, "n3", "", "pkill", "-STOP", "-x", "proxyd").mustSucceed(t)
		c.runAsRoot(t, "sleep 2; scontrol update StartTime=now JobId="+job+"; scontrol release "+job)
		waitFor(t, 30*time.Second, func() (bool, string) {
			said := strings.Fields(c.runOn(t, "n3", "", "ss", "-xlnH", "src", "/run/singularity-slurm/spank.sock").out)
			return len(said) > 2 && said[2] != "0", strings.Join(said, " ")
		})
		c.runAsRoot(t, "scancel --signal=KILL --batch "+job)
		c.runOn(t, "n3", "", "pkill", "-CONT", "-x", "proxyd").mustSucceed(t)
		c.restartJob(t, job, "")
		c.waitForEnd(t, job)
		if got := c.jobLog(job); got != undisturbedOutput("n3") {
			t.Errorf("the job's log is not as expected:\n%s", got)
		}
	})
	t.Run("requeued while a task waits for proxyd", func(t *testing.T) {
		requeuedWhileTaskWaits(t, c)
	})
	t.Run("requeued before a task begins", func(t *testing.T) {
		requeuedBeforeTaskBegins(t, c)
	})
	t.Run("a slow reader", func(t *testing.T) {
		slowReader(t, c)
	})
	t.Run("standard input", func(t *testing.T) {
		standardInput(t, c)
	})
	t.Run("large input", func(t *testing.T) {
		largeInput(t, c)
	})
	t.Run("standard input that is not srun's", func(t *testing.T) {
		inputOfOthers(t, c)
	})
	t.Run("upgrade", func(t *testing.T) {
		job := c.submitJob(t, "--singularity -w n2", "srun bash -c '"+count+"'")
		c.waitForLine(t, job, "8")
		for _, n := range []string{"n1", "n2", "n3"} {
			c.runOn(t, n, "", "bash", "-euc", `
				for f in /usr/libexec/singularity-slurm/sing-* /usr/lib/singularity-slurm/libsingshim.so; do
					cp $f $f.new; echo another release >> $f.new; mv $f.new $f
				done`).mustSucceed(t)
			runMinicluster(t, "restart", "--name", c.name, n, "proxyd").mustSucceed(t)
		}
		c.runAsRoot(t, "scontrol requeue "+job)
		c.runAsRoot(t, "scontrol update ReqNodeList= JobId="+job)
		c.restartJob(t, job, "n2")
		c.waitForEnd(t, job)
		if got := c.jobLog(job); got != undisturbedOutput("n2") {
			t.Errorf("the job's log is not as expected:\n%s", got)
		}
	})
}

// requeuedWhileTaskWaits: the SIGTERM of a requeue comes to a task of a step that waits for the proxyd of its node. The task
// waits on, and is captured with its step. A task of a cancelled job ends as soon as proxyd answers.
func requeuedWhileTaskWaits(t *testing.T, c protected) {
	const script = `touch begun; until [ -e go ]; do sleep 0.1; done
		srun bash -c 'for i in $(seq 30); do echo $i >>step.$SLURM_PROCID; sleep 0.1; done'; echo rc $?`
	for _, command := range []string{"scontrol requeue ", "scancel "} {
		c.runOn(t, "ctl", "alice", "bash", "-c", "rm -f begun go step.?").mustSucceed(t)
		job := c.submitJob(t, "--singularity -N2 -w n1,n2", script)
		waitFor(t, time.Minute, func() (bool, string) {
			return c.runOn(t, "ctl", "alice", "test", "-e", "begun").code == 0, "the script does not begin"
		})
		c.runOn(t, "n2", "", "pkill", "-STOP", "-x", "proxyd").mustSucceed(t)
		c.runOn(t, "ctl", "alice", "touch", "go").mustSucceed(t)
		waitFor(t, time.Minute, func() (bool, string) {
			return c.runOn(t, "n2", "", "pgrep", "-x", "sing-waiting").code == 0, "no task waits on n2"
		})
		c.runAsRoot(t, command+job)
		waitFor(t, time.Minute, func() (bool, string) {
			pending := c.runOn(t, "n2", "", "bash", "-c", "grep ShdPnd /proc/$(pgrep -x sing-waiting)/status").out
			bits, _ := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(pending, "ShdPnd:")), 16, 64)
			return bits&(1<<(syscall.SIGTERM-1)) != 0, "pending signals of the task: " + pending
		})
		ended := time.Now()
		c.runOn(t, "n2", "", "pkill", "-CONT", "-x", "proxyd").mustSucceed(t)
		if command == "scancel " {
			c.waitForEnd(t, job)
			if took := time.Since(ended); took > 25*time.Second { // KillWait is 30 s
				t.Errorf("the cancelled job ends after %s: Slurm had to kill it", took)
			}
			continue
		}
		c.restartJob(t, job, "")
		c.waitForEnd(t, job)
		if got := c.jobLog(job); !strings.HasSuffix(got, "rc 0") || strings.Contains(got, "without a checkpoint") {
			t.Errorf("the job's log is not as expected:\n%s", got)
		}
		for _, name := range []string{"step.0", "step.1"} {
			got := c.runOn(t, "ctl", "alice", "cat", name).mustSucceed(t)
			if want := c.runOn(t, "ctl", "", "seq", "30").mustSucceed(t); got != want {
				t.Errorf("file %s does not have the lines of an undisturbed run:\n%s", name, got)
			}
		}
	}
}

// requeuedBeforeTaskBegins: the SIGTERM of a requeue ends a task that has its place while its program has not begun.
// The step is captured without the task, which begins in the next run. A prolog that does not end keeps the task in
// that moment.
func requeuedBeforeTaskBegins(t *testing.T, c protected) {
	c.runOn(t, "ctl", "alice", "bash", "-c", "rm -f held step.?").mustSucceed(t)
	job := c.submitJob(t, "--singularity -N2 -w n1,n2", `
		cat >prolog <<-'END'
			#!/bin/bash
			if [ $SLURM_PROCID = 1 ] && [ ! -e held ]; then touch held; exec sleep 1000; fi
		END
		chmod +x prolog
		srun --task-prolog=$PWD/prolog bash -c 'for i in $(seq 30); do echo $i >>step.$SLURM_PROCID; sleep 0.1; done'; echo rc $?`)
	waitFor(t, time.Minute, func() (bool, string) {
		there := c.runOn(t, "ctl", "alice", "test", "-e", "held", "-a", "-e", "step.0").code == 0
		return there, "no task waits for its prolog"
	})
	c.runAsRoot(t, "scontrol requeue "+job)
	c.restartJob(t, job, "")
	if s := c.waitForEnd(t, job); !strings.Contains(s, "COMPLETED") {
		t.Errorf("the job's state at its end, want COMPLETED: %v", s)
	}
	if got := c.jobLog(job); !strings.HasSuffix(got, "\nrc 0") || strings.Contains(got, "without a checkpoint") { // Slurm says that the prolog was ended
		t.Errorf("the job's log is not as expected:\n%s", got)
	}
	for _, name := range []string{"step.0", "step.1"} {
		got := c.runOn(t, "ctl", "alice", "cat", name).mustSucceed(t)
		if want := c.runOn(t, "ctl", "", "seq", "30").mustSucceed(t); got != want {
			t.Errorf("file %s does not have the lines of an undisturbed run:\n%s", name, got)
		}
	}
}
