//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// steps is a script that notes in a file how many steps are done, and goes on from there; TRAP stands for the script's
// handler of SIGUSR1.
const steps = `trap 'TRAP' USR1
	n=$(cat steps.$SLURM_JOB_ID 2>/dev/null | wc -l)
	echo begin at $n
	while [ $n -lt 60 ]; do n=$((n + 1)); echo step $n | tee -a steps.$SLURM_JOB_ID; sleep 0.15; done
	echo done`

// TestRequeueItself: jobs that have Slurm requeue themselves, as people write them. Such a job has saved its own state:
// its next run begins anew, unless the job went on after its request.
func TestRequeueItself(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-requeue-itself", "--nodes", "2")
	c.copyPrograms(t, "submitit.py", "lightning.py")
	// run submits a script, which gets SIGUSR1 at a line, and returns the log of the whole job.
	run := func(t *testing.T, options, script, line, to string) string {
		t.Helper()
		job := c.submitJob(t, "--singularity "+options, script)
		c.waitForLine(t, job, line)
		c.runAsRoot(t, "scancel --signal=USR1 "+to+" "+job)
		waitFor(t, 60*time.Second, func() (bool, string) {
			s := c.showColumn(t, job, "RestartCnt")
			return s == "1", "restarts: " + s + " " + c.jobLog(job)
		})
		c.restartJob(t, job, "")
		if s := c.waitForEnd(t, job); !strings.Contains(s, "COMPLETED") {
			t.Errorf("the job ended as %s, want COMPLETED", s)
		}
		if n := c.showColumn(t, job, "RestartCnt"); n != "1" {
			t.Errorf("%s restarts", n)
		}
		return c.jobLog(job)
	}
	// anew is the log of a job of 60 steps after its first run had come to one of the steps.
	anew := func(t *testing.T, log, said string) {
		t.Helper()
		var got, last int
		first, second, ok := strings.Cut(log, said+"\nbegin at ")
		if _, err := fmt.Sscan(second, &last); !ok || err != nil || last < 8 || last >= 60 {
			t.Fatalf("the second run did not begin anew where the first had saved (%d):\n%s", last, log)
		}
		for l := range strings.SplitSeq(first+second, "\n") {
			if n := 0; strings.HasPrefix(l, "step ") {
				if _, err := fmt.Sscanf(l, "step %d", &n); err != nil || n != got+1 {
					t.Fatalf("%q after step %d:\n%s", l, got, log)
				}
				got = n
			}
		}
		if got != 60 || !strings.HasSuffix(log, "\ndone") {
			t.Errorf("%d steps:\n%s", got, log)
		}
	}
	for name, test := range map[string]func(*testing.T){
		"exits in its handler": func(t *testing.T) {
			script := strings.Replace(steps, "TRAP", "scontrol requeue $SLURM_JOB_ID; echo bye; exit 0", 1)
			anew(t, run(t, "", script, "step 8", "--batch"), "bye")
		},
		"waits for its program": func(t *testing.T) { // wait returns because of the trap, and the script ends
			program := strings.Replace(steps, "TRAP", "echo bye; exit 0", 1)
			script := "trap 'scontrol requeue $SLURM_JOB_ID; kill -USR1 $!; wait $!' USR1\nbash -c " + quoteForShell(program) + " & wait $!"
			anew(t, run(t, "", script, "step 8", "--batch"), "bye")
		},
		"has saved after a checkpoint of ours": func(t *testing.T) {
			script := strings.Replace(steps, "TRAP", "scontrol requeue $SLURM_JOB_ID; echo bye; exit 7", 1)
			job := c.submitJob(t, "--singularity", script)
			c.waitForLine(t, job, "step 4")
			c.checkCommand(t, "alice", "singctl checkpoint "+job, 0, "")
			c.waitForLine(t, job, "step 20")
			c.runAsRoot(t, "scancel --signal=USR1 --batch "+job)
			c.restartJob(t, job, "")
			if s := c.waitForEnd(t, job); !strings.Contains(s, "COMPLETED") {
				t.Errorf("the job ended as %s, want COMPLETED", s)
			}
			anew(t, c.jobLog(job), "bye")
		},
		"is told by Slurm before its time limit": func(t *testing.T) { // in each run, up to a minute early
			script := strings.NewReplacer("TRAP", "scontrol requeue $SLURM_JOB_ID; echo bye; exit 0", "60", "300").Replace(steps)
			job := c.submitJob(t, "--singularity --time=1 --signal=B:USR1@50", script)
			for runs := 1; c.hasRequeuedItself(t, job, runs); runs++ {
				c.restartJob(t, job, "")
			}
			got := 0
			for line := range strings.Lines(c.jobLog(job) + "\n") {
				switch n, begin := 0, 0; {
				case scanned(line, "step %d\n", &n) && n == got+1:
					got = n
				case scanned(line, "begin at %d\n", &begin) && begin == got, line == "bye\n", line == "done\n" && got == 300:
				default:
					t.Fatalf("%q after step %d:\n%s", line, got, c.jobLog(job))
				}
			}
			if n := c.showColumn(t, job, "RestartCnt"); got != 300 || n == "0" {
				t.Errorf("%d steps, %s restarts", got, n)
			}
		},
		"submitit": func(t *testing.T) {
			anew(t, run(t, "", "srun python3 submitit.py", "step 8", ""), "")
		},
		"goes on": func(t *testing.T) { // and is captured: its sum is in the program alone
			script := `trap 'scontrol requeue $SLURM_JOB_ID; echo asked' USR1
				s=0; for i in $(seq 150); do s=$((s + i)); echo $i; sleep 0.15; done; echo sum $s`
			log := run(t, "", script, "8", "--batch")
			var want strings.Builder
			for i := 1; i <= 150; i++ {
				fmt.Fprintln(&want, i)
			}
			if got := strings.Replace(log, "asked\n", "", 1); got != want.String()+"sum 11325" {
				t.Errorf("the job's log is not as expected:\n%s", got)
			}
		},
		"Lightning": func(t *testing.T) {
			log := run(t, "", "echo 8; sleep 1; exec python3 lightning.py", "fit from 0", "--batch")
			if !strings.HasSuffix(log, "\nfitted 20100") || strings.Count(log, "fit from") != 1 {
				t.Errorf("the job's log is not as expected:\n%s", log)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// hasRequeuedItself waits until a run of a job is over, which is counted from 1, and tells whether Slurm will run the job again.
func (c protected) hasRequeuedItself(t *testing.T, job string, run int) (again bool) {
	t.Helper()
	waitFor(t, 5*time.Minute, func() (bool, string) {
		state, restarts := c.showColumn(t, job, "State"), c.showColumn(t, job, "RestartCnt")
		if strings.Contains(state, "FAILED") || strings.Contains(state, "TIMEOUT") {
			t.Fatalf("job %s: %s\n%s", job, state, c.jobLog(job))
		}
		again = restarts == strconv.Itoa(run)
		return again || state == "COMPLETED", "job " + job + ": " + state + ", restarts: " + restarts
	})
	return again
}

// scanned tells whether a line matches a format of Sscanf, and stores its value.
func scanned(line, form string, value *int) bool {
	_, err := fmt.Sscanf(line, form, value)
	return err == nil
}

// quoteForShell returns a text as a quoted word of a shell.
func quoteForShell(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// TestRequeueExit: a job that ends with an exit code of RequeueExit begins anew, even if there are checkpoints of the
// run that has ended.
func TestRequeueExit(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-requeue-exit", "--nodes", "1")
	job := c.submitJob(t, "--singularity", `n=$(cat runs.$SLURM_JOB_ID 2>/dev/null || echo 0); n=$((n + 1)); echo $n > runs.$SLURM_JOB_ID
		echo run $n; while [ ! -e go.$SLURM_JOB_ID.$n ]; do sleep 0.05; done
		[ $n -eq 3 ] || exit 123; echo done`)
	for n := 1; n <= 3; n++ {
		c.waitForLine(t, job, fmt.Sprint("run ", n))
		c.checkCommand(t, "alice", "singctl checkpoint "+job, 0, "")
		if err := os.WriteFile(c.homePath(fmt.Sprintf("go.%s.%d", job, n)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if n < 3 {
			c.restartJob(t, job, "")
		}
	}
	c.checkCompleted(t, job, "run 1\nrun 2\nrun 3\ndone")
}
