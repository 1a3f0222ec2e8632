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

// protected is a cluster with singularity-slurm, and what its tests do to jobs.
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
	c := protected{raise(t, name, append([]string{"--singularity", "--suite", suite}, args...)...)}
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

// submit submits a script as alice and returns the job's id.
func (c protected) submit(t *testing.T, options, script string) string {
	t.Helper()
	return c.sh(t, fmt.Sprintf("cd; sbatch --parsable --output=%%j.log %s <<'SCRIPT'\n#!/bin/bash\n%s\nSCRIPT", options, script))
}

// ctl runs a command as root on ctl.
func (c protected) ctl(t *testing.T, command string) string {
	t.Helper()
	return strings.TrimSpace(c.exec(t, "ctl", "", "bash", "-euc", command).must(t))
}

func (c protected) show(t *testing.T, job, column string) string {
	t.Helper()
	return c.ctl(t, fmt.Sprintf("squeue --noheader --states=all --jobs=%s --Format=%s:200 | head -n 1", job, column))
}

// log is what the job wrote, without what Slurm adds when it ends a run.
func (c protected) log(job string) string {
	b, _ := os.ReadFile(filepath.Join("/var/lib/minicluster", c.name, "shared/home/alice", job+".log"))
	return strings.TrimSpace(slurmsOwn.ReplaceAllString(string(b), ""))
}

// slurmsOwn are lines of slurmd and srun about a job that is being killed. Without us
// they are there as well. 22.05 has the name of the node after slurmstepd.
var slurmsOwn = regexp.MustCompile(`(?m)^(\d+: )?(slurmstepd(-\S+)?: |srun: |\[[-0-9T:.]+\] )(error: \*\*\* |Job step aborted|got SIGCONT|forcing job termination).*\n`)

// reaches waits until the job's log has a line.
func (c protected) reaches(t *testing.T, job, line string) {
	t.Helper()
	eventually(t, 60*time.Second, func() (bool, string) {
		log := c.log(job)
		return strings.Contains("\n"+log+"\n", "\n"+line+"\n"), fmt.Sprintf("job %s: no %q in:\n%s", job, line, log)
	})
}

// again has a job that was requeued start at once, on other nodes if exclude is set.
func (c protected) again(t *testing.T, job, exclude string) {
	t.Helper()
	eventually(t, 90*time.Second, func() (bool, string) {
		s := c.show(t, job, "State")
		return s == "PENDING" || s == "REQUEUE_HOLD", "job " + job + ": " + s
	})
	// A job that starts in the second of its requeue has a revoked credential (Slurm's).
	c.ctl(t, fmt.Sprintf("sleep 2; scontrol update JobId=%s StartTime=now ExcNodeList=%s; scontrol release %s", job, exclude, job))
}

// ends waits for a job's end and returns its state and exit code.
func (c protected) ends(t *testing.T, job string) string {
	t.Helper()
	var s string
	eventually(t, 120*time.Second, func() (bool, string) {
		s = c.ctl(t, fmt.Sprintf("squeue --noheader --states=all --jobs=%s --Format=State:.20,exit_code:.10,Comment:.300", job))
		return strings.Contains(s, "COMPLETED") || strings.Contains(s, "FAILED") || strings.Contains(s, "CANCELLED"), "job " + job + ": " + s
	})
	return s
}

// count is a script that counts in a loop; its state is in the shell.
const count = `sum=0; for i in $(seq 1 60); do sum=$((sum + i)); echo $i; sleep 0.15; done; echo sum $sum on $(hostname)`

// counted is what it prints when nothing disturbs it, on a node.
func counted(node string) string {
	var b strings.Builder
	for i := 1; i <= 60; i++ {
		fmt.Fprintln(&b, i)
	}
	fmt.Fprintf(&b, "sum 1830 on %s", node)
	return b.String()
}

// requeueSteps requeues a job of two nodes while a step runs on both, and has it go on without one
// of them: each step gives its output and its exit code once.
func (c protected) requeueSteps(t *testing.T) {
	t.Helper()
	job := c.submit(t, "--singularity -N2 -w n1,n2", `
		echo "$(hostname)"
		srun -l bash -c 'for i in $(seq 30); do echo $i; sleep 0.15; done; exit $SLURM_PROCID' 2>/dev/null | sort -k1,1 -k2,2n > sorted.$SLURM_JOB_ID
		echo rc ${PIPESTATUS[0]}
		srun -n2 hostname | sort
		md5sum < sorted.$SLURM_JOB_ID`)
	eventually(t, 30*time.Second, func() (bool, string) {
		s := c.ctl(t, "squeue --noheader --steps | grep -c ' "+job+"\\.0 ' || true")
		return s == "1", "no step"
	})
	c.ctl(t, "sleep 1; scontrol requeue "+job)
	c.ctl(t, "scontrol update ReqNodeList= JobId="+job)
	c.again(t, job, "n1")
	if s := c.ends(t, job); !strings.Contains(s, "COMPLETED") {
		t.Error(s)
	}
	var want strings.Builder
	for r := range 2 {
		for i := 1; i <= 30; i++ {
			fmt.Fprintf(&want, "%d: %d\n", r, i)
		}
	}
	lines := strings.Split(c.log(job), "\n")
	sorted, _ := os.ReadFile(filepath.Join("/var/lib/minicluster", c.name, "shared/home/alice/sorted."+job))
	got := slurmsOwn.ReplaceAllString(string(sorted), "")
	if got != want.String() {
		t.Errorf("the step wrote:\n%s", got)
	}
	if len(lines) < 4 || lines[1] != "rc 1" {
		t.Errorf("log: %q", lines)
	}
}

// TestProtected: whatever Slurm does to a job, it costs the job nothing but time.
func TestProtected(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-protected", "--nodes", "3")
	requeued := func(t *testing.T, verb string) {
		job := c.submit(t, "--singularity -w n1", count)
		c.reaches(t, job, "8")
		c.ctl(t, "scontrol "+verb+" "+job)
		c.ctl(t, "scontrol update ReqNodeList= JobId="+job)
		c.again(t, job, "n1")
		c.ends(t, job)
		if got := c.log(job); got != counted("n1") {
			t.Errorf("log:\n%s", got)
		}
		if n := c.show(t, job, "NodeList"); n == "n1" {
			t.Errorf("restored on %s", n)
		}
	}
	for name, test := range map[string]func(*testing.T){
		"requeue":     func(t *testing.T) { requeued(t, "requeue") },
		"requeuehold": func(t *testing.T) { requeued(t, "requeuehold") },
		"emptied log": func(t *testing.T) { // no line with #SBATCH has Slurm empty the log
			job := c.submit(t, "", "#SBATCH --open-mode=truncate --singularity\n"+count)
			c.reaches(t, job, "8")
			node := c.show(t, job, "NodeList")
			c.ctl(t, "scontrol requeue "+job)
			c.again(t, job, node)
			c.ends(t, job)
			if got := c.log(job); got != counted(node) {
				t.Errorf("log:\n%s", got)
			}
			said := c.exec(t, "ctl", "alice", "bash", "-c", "cd; sbatch --singularity --open-mode=truncate --output=%j.log --wrap true")
			if want := "sbatch: singularity: --open-mode=truncate: whenever the job starts again, Slurm empties its log"; said.code != 0 || !strings.Contains(said.err, want) {
				t.Errorf("sbatch: %d\n%s", said.code, said.err)
			}
		},
		"pipe opened again": func(t *testing.T) {
			job := c.submit(t, "--singularity -w n1", `exec 5> >(cat >piped)
				`+count+`
				echo late >/dev/fd/5; exec 5>&-; wait $!; cat piped`)
			c.reaches(t, job, "8")
			c.ctl(t, "scontrol requeue "+job)
			c.ctl(t, "scontrol update ReqNodeList= JobId="+job)
			c.again(t, job, "n1")
			c.ends(t, job)
			if got := c.log(job); got != counted("n1")+"\nlate" {
				t.Errorf("log:\n%s", got)
			}
		},
		"stopped by itself": func(t *testing.T) { // Slurm sends SIGCONT before the SIGTERM of a requeue
			job := c.submit(t, "--singularity", `sleep 1000 & child=$!; kill -STOP $child; echo stopped
				for i in $(seq 40); do sleep 0.15; done; sed -n 's/^State:\s*\(.\).*/\1/p' /proc/$child/status; { kill -9 $child; wait $child; } 2>/dev/null || true`)
			c.reaches(t, job, "stopped")
			c.ctl(t, "scontrol requeue "+job)
			c.again(t, job, "")
			c.ends(t, job)
			if got := c.log(job); got != "stopped\nT" {
				t.Errorf("log:\n%s", got)
			}
		},
		"suspended": func(t *testing.T) {
			job := c.submit(t, "--singularity", count)
			for _, line := range []string{"8", "24"} {
				c.reaches(t, job, line)
				node := c.show(t, job, "NodeList")
				c.ctl(t, "scontrol suspend "+job)
				// Slurm carries out a resume that follows at once before the suspension, now and then. The last thing that
				// the suspension does is that the warden is stopped.
				eventually(t, 60*time.Second, func() (bool, string) {
					return c.exec(t, node, "", "pgrep", "--runstates", "T", "-x", "sing-warden").code == 0, "job " + job + " is not suspended"
				})
				c.ctl(t, "scontrol resume "+job)
			}
			c.ends(t, job)
			if got, node := c.log(job), c.show(t, job, "NodeList"); got != counted(node) {
				t.Errorf("log:\n%s", got)
			}
		},
		"cancel": func(t *testing.T) {
			job := c.submit(t, "--singularity", `trap 'echo term; exit 5' TERM; echo ready; while :; do sleep 0.1; done`)
			c.reaches(t, job, "ready")
			c.ctl(t, "scancel "+job)
			c.ends(t, job)
			c.reaches(t, job, "term")
		},
		"signal": func(t *testing.T) {
			job := c.submit(t, "--singularity", `trap 'echo usr1; exit 6' USR1; echo ready; while :; do sleep 0.1; done`)
			c.reaches(t, job, "ready")
			c.ctl(t, "scancel --signal=USR1 --batch "+job)
			if s := c.ends(t, job); !strings.Contains(s, "FAILED") {
				t.Error(s)
			}
			c.reaches(t, job, "usr1")
		},
		"steps": func(t *testing.T) { c.requeueSteps(t) },
		"time limit": func(t *testing.T) {
			job := c.submit(t, "--singularity --time=1", strings.ReplaceAll(count, "sleep 0.15", "sleep 1.7"))
			eventually(t, 120*time.Second, func() (bool, string) {
				s := c.show(t, job, "RestartCnt")
				return s == "1", "restarts: " + s + ", " + c.show(t, job, "State")
			})
			c.again(t, job, "")
			c.ends(t, job)
			if got := c.log(job); !strings.HasPrefix(got, counted("")) {
				t.Errorf("log:\n%s", got)
			}
		},
		"proxyd killed": func(t *testing.T) {
			job := c.submit(t, "--singularity -w n2", count)
			c.reaches(t, job, "5")
			c.exec(t, "n2", "", "pkill", "-KILL", "-x", "proxyd").must(t)
			c.reaches(t, job, "15")
			mc(t, "restart", "--name", c.name, "n2", "proxyd").must(t)
			c.ctl(t, "scontrol requeue "+job)
			c.again(t, job, "")
			c.ends(t, job)
			if got := c.log(job); got != counted("n2") {
				t.Errorf("log:\n%s", got)
			}
		},
		"preempted": func(t *testing.T) {
			job := c.submit(t, "--singularity -w n3 --exclusive --qos=basic", count)
			c.reaches(t, job, "8")
			other := c.submit(t, "-w n3 --exclusive --qos=premium", "sleep 1")
			c.ends(t, other)
			c.says(t, "alice", "singctl show "+job, 0, `checkpoint +n3 +1 \(preemption\), in`, `left +n3 +preemption$`)
			c.again(t, job, "")
			c.ends(t, job)
			if got := c.log(job); got != counted("n3") {
				t.Errorf("log:\n%s", got)
			}
		},
		"not requeueable": func(t *testing.T) {
			job := c.submit(t, "--singularity --no-requeue", "readlink /proc/self/ns/pid")
			c.ends(t, job)
			if got := c.log(job); !strings.HasPrefix(got, "singularity: this job runs unprotected: the job was submitted with --no-requeue") {
				t.Errorf("log:\n%s", got)
			}
		},
		"unprotected": func(t *testing.T) {
			job := c.submit(t, "", "readlink /proc/self/ns/pid; env | grep -c SINGULARITY; exit 0")
			c.ends(t, job)
			lines := strings.Split(c.log(job), "\n")
			host := strings.TrimSpace(c.exec(t, "n1", "", "readlink", "/proc/self/ns/pid").must(t))
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

// TestProtectedNodes: a node that dies, one whose job yields with time to spare, and
// another release of ours under a job.
func TestProtectedNodes(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-nodes", "--nodes", "3")
	c.ctl(t, "sacctmgr -i modify qos basic set gracetime=20")
	t.Run("grace", func(t *testing.T) {
		job := c.submit(t, "--singularity -w n3 --exclusive --qos=basic", "srun bash -c '"+count+"'")
		c.reaches(t, job, "8")
		began := time.Now()
		other := c.submit(t, "-w n3 --exclusive --qos=premium", "sleep 1")
		c.ends(t, other)
		if d := time.Since(began); d > 18*time.Second {
			t.Errorf("the node was given up after %s", d)
		}
		c.again(t, job, "")
		c.ends(t, job)
		if got := c.log(job); got != counted("n3") {
			t.Errorf("log:\n%s", got)
		}
	})
	t.Run("node fails", func(t *testing.T) {
		job := c.submit(t, "--singularity --singularity-interval=10s -N2 -w n1,n2", `
			srun --overlap -N1 -n1 --output=one bash -c 'for i in $(seq 150); do echo $i; sleep 0.15; done' &
			srun --overlap --output=step.%t bash -c 'for i in $(seq 150); do echo $SLURM_PROCID $i | tee -a file.$SLURM_PROCID; sleep 0.15; done'
			echo rc $?; wait; env | grep -c SLURM_OPEN_MODE; md5sum < file.0; md5sum < file.1`)
		eventually(t, 40*time.Second, func() (bool, string) {
			s := c.show(t, job, "Comment")
			return strings.Contains(s, "checkpoint 1"), s
		})
		mc(t, "fail", "n1", "--name", c.name).must(t)
		c.ctl(t, "scontrol update NodeName=n1 State=DOWN Reason=test")
		c.ctl(t, "scontrol update ReqNodeList= JobId="+job)
		c.again(t, job, "")
		c.ends(t, job)
		mc(t, "heal", "n1", "--name", c.name).must(t)
		// What the job wrote after its checkpoint is gone, what srun and slurmstepd wrote for it too.
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
				t.Errorf("%s:\n%s", name, got)
			}
		}
		if got := c.log(job); !strings.Contains(got, "rc 0") {
			t.Errorf("log:\n%s", got)
		}
	})
	t.Run("leader killed as it is requeued", func(t *testing.T) {
		// No task runs on n2: Slurm is done with it at once.
		job := c.submit(t, "--singularity -N2 -w n1,n2", "srun true; "+count)
		c.reaches(t, job, "8")
		c.exec(t, "n1", "", "pkill", "-KILL", "-x", "proxyd").must(t)
		c.ctl(t, "scontrol requeue "+job)
		mc(t, "heal", "n1", "--name", c.name).must(t)
		c.again(t, job, "")
		c.ends(t, job)
		if got := c.log(job); got != counted("n1") {
			t.Errorf("log:\n%s", got)
		}
	})
	t.Run("steps begin", func(t *testing.T) {
		job := c.submit(t, "--singularity -N2 -w n1,n2", `rm -f step.?
			for i in $(seq 60); do srun bash -c "echo $i >>step.\$SLURM_PROCID; sleep 0.05; exit \$(($i * SLURM_PROCID))"; echo $i: $?; done`)
		c.reaches(t, job, "3: 3")
		for range 8 {
			c.exec(t, "ctl", "alice", "singctl", "checkpoint", job).must(t)
		}
		c.ctl(t, "scontrol requeue "+job)
		c.again(t, job, "")
		c.ends(t, job)
		var log, step strings.Builder
		for i := 1; i <= 60; i++ {
			fmt.Fprintf(&log, "%[1]d: %[1]d\n", i)
			fmt.Fprintln(&step, i)
		}
		if got := c.log(job); regexp.MustCompile(`(?m)^srun: .*\n`).ReplaceAllString(got+"\n", "") != log.String() {
			t.Errorf("log:\n%s", got)
		}
		for _, name := range []string{"step.0", "step.1"} {
			if got, _ := os.ReadFile(filepath.Join("/var/lib/minicluster", c.name, "shared/home/alice", name)); string(got) != step.String() {
				t.Errorf("%s:\n%s", name, got)
			}
		}
		// While all stand still nobody begins.
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
		job := c.submit(t, "--singularity -w n3", count)
		c.reaches(t, job, "5")
		c.ctl(t, "scontrol requeuehold "+job)
		eventually(t, 60*time.Second, func() (bool, string) {
			s := c.show(t, job, "State")
			return s == "PENDING" || s == "REQUEUE_HOLD", s
		})
		// Its task waits for proxyd, and is killed there: nothing of the job's has run.
		c.exec(t, "n3", "", "pkill", "-STOP", "-x", "proxyd").must(t)
		c.ctl(t, "sleep 2; scontrol update StartTime=now JobId="+job+"; scontrol release "+job)
		eventually(t, 30*time.Second, func() (bool, string) {
			said := strings.Fields(c.exec(t, "n3", "", "ss", "-xlnH", "src", "/run/singularity-slurm/spank.sock").out)
			return len(said) > 2 && said[2] != "0", strings.Join(said, " ")
		})
		c.ctl(t, "scancel --signal=KILL --batch "+job)
		c.exec(t, "n3", "", "pkill", "-CONT", "-x", "proxyd").must(t)
		c.again(t, job, "")
		c.ends(t, job)
		if got := c.log(job); got != counted("n3") {
			t.Errorf("log:\n%s", got)
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
	t.Run("upgrade", func(t *testing.T) {
		job := c.submit(t, "--singularity -w n2", "srun bash -c '"+count+"'")
		c.reaches(t, job, "8")
		for _, n := range []string{"n1", "n2", "n3"} {
			c.exec(t, n, "", "bash", "-euc", `
				for f in /usr/libexec/singularity-slurm/sing-* /usr/lib/singularity-slurm/libsingshim.so; do
					cp $f $f.new; echo another release >> $f.new; mv $f.new $f
				done`).must(t)
			mc(t, "restart", "--name", c.name, n, "proxyd").must(t)
		}
		c.ctl(t, "scontrol requeue "+job)
		c.ctl(t, "scontrol update ReqNodeList= JobId="+job)
		c.again(t, job, "n2")
		c.ends(t, job)
		if got := c.log(job); got != counted("n2") {
			t.Errorf("log:\n%s", got)
		}
	})
}

// requeuedWhileTaskWaits: the SIGTERM of a requeue comes to a task of a step that waits for the proxyd of its node. The task
// waits on, and is captured with its step. A task whose job is cancelled ends as soon as proxyd answers.
func requeuedWhileTaskWaits(t *testing.T, c protected) {
	const script = `touch begun; until [ -e go ]; do sleep 0.1; done
		srun bash -c 'for i in $(seq 30); do echo $i >>step.$SLURM_PROCID; sleep 0.1; done'; echo rc $?`
	for _, command := range []string{"scontrol requeue ", "scancel "} {
		c.exec(t, "ctl", "alice", "bash", "-c", "rm -f begun go step.?").must(t)
		job := c.submit(t, "--singularity -N2 -w n1,n2", script)
		eventually(t, time.Minute, func() (bool, string) {
			return c.exec(t, "ctl", "alice", "test", "-e", "begun").code == 0, "the script does not begin"
		})
		c.exec(t, "n2", "", "pkill", "-STOP", "-x", "proxyd").must(t)
		c.exec(t, "ctl", "alice", "touch", "go").must(t)
		eventually(t, time.Minute, func() (bool, string) {
			return c.exec(t, "n2", "", "pgrep", "-x", "sing-waiting").code == 0, "no task waits on n2"
		})
		c.ctl(t, command+job)
		eventually(t, 20*time.Second, func() (bool, string) {
			pending := c.exec(t, "n2", "", "bash", "-c", "grep ShdPnd /proc/$(pgrep -x sing-waiting)/status").out
			bits, _ := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(pending, "ShdPnd:")), 16, 64)
			return bits&(1<<(syscall.SIGTERM-1)) != 0, "pending signals of the task: " + pending
		})
		ended := time.Now()
		c.exec(t, "n2", "", "pkill", "-CONT", "-x", "proxyd").must(t)
		if command == "scancel " {
			c.ends(t, job)
			if took := time.Since(ended); took > 25*time.Second {
				t.Errorf("the cancelled job ends after %s: Slurm had to kill it", took)
			}
			continue
		}
		c.again(t, job, "")
		c.ends(t, job)
		if got := c.log(job); !strings.HasSuffix(got, "rc 0") || strings.Contains(got, "without a checkpoint") {
			t.Errorf("log:\n%s", got)
		}
		for _, name := range []string{"step.0", "step.1"} {
			got := c.exec(t, "ctl", "alice", "cat", name).must(t)
			if want := c.exec(t, "ctl", "", "seq", "30").must(t); got != want {
				t.Errorf("%s:\n%s", name, got)
			}
		}
	}
}

// requeuedBeforeTaskBegins: the SIGTERM of a requeue ends a task that has its place and whose program has not begun. The step is
// captured without the task, which begins in the next run. A prolog that does not end keeps the task in that moment.
func requeuedBeforeTaskBegins(t *testing.T, c protected) {
	c.exec(t, "ctl", "alice", "bash", "-c", "rm -f held step.?").must(t)
	job := c.submit(t, "--singularity -N2 -w n1,n2", `
		cat >prolog <<-'END'
			#!/bin/bash
			if [ $SLURM_PROCID = 1 ] && [ ! -e held ]; then touch held; exec sleep 1000; fi
		END
		chmod +x prolog
		srun --task-prolog=$PWD/prolog bash -c 'for i in $(seq 30); do echo $i >>step.$SLURM_PROCID; sleep 0.1; done'; echo rc $?`)
	eventually(t, time.Minute, func() (bool, string) {
		there := c.exec(t, "ctl", "alice", "test", "-e", "held", "-a", "-e", "step.0").code == 0
		return there, "no task waits for its prolog"
	})
	c.ctl(t, "scontrol requeue "+job)
	c.again(t, job, "")
	if s := c.ends(t, job); !strings.Contains(s, "COMPLETED") {
		t.Error(s)
	}
	if got := c.log(job); !strings.HasSuffix(got, "\nrc 0") || strings.Contains(got, "without a checkpoint") { // Slurm says that the prolog was ended
		t.Errorf("log:\n%s", got)
	}
	for _, name := range []string{"step.0", "step.1"} {
		got := c.exec(t, "ctl", "alice", "cat", name).must(t)
		if want := c.exec(t, "ctl", "", "seq", "30").must(t); got != want {
			t.Errorf("%s:\n%s", name, got)
		}
	}
}
