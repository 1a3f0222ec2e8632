//go:build live

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"flag"
	"regexp"
	"strings"
	"testing"
	"time"
)

var only = flag.String("suite", "", "only this suite: forky, trixie or bookworm")

// TestLive runs all checks once for each Slurm. It is sequential: three clusters and their jobs are more
// than enough for a small machine.
func TestLive(t *testing.T) {
	for _, s := range suites {
		if *only != "" && *only != s.name {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			c := raiseCluster(t, s)
			for _, part := range []struct {
				name string
				test func(*testing.T, *cluster)
			}{
				{"help", checkHelp},
				{"refused at submission", refusedAtSubmission},
				{"statuses", checkStatuses},
				{"streams", checkStreams},
				{"as outside", asOutside},
				{"few descriptors", fewDescriptors},
				{"signals", checkSignals},
				{"array", checkArray},
				{"multi-prog", multiProg},
				{"salloc", checkSalloc},
				{"inner srun", innerSrun},
				{"answers", checkAnswers},
				{"proxyd dies", proxydDies},
				{"cancelled while waiting", cancelledWhileWaiting},
				{"log appended", logAppended},
				{"REST", checkOtherJobs},
				{"untouched", checkUntouched},
				{"plugstack.conf", checkPlugstack},
				{"end", checkEnds},
				{"nodes not drained", notDrained},
			} {
				t.Run(part.name, func(t *testing.T) { part.test(t, c) })
			}
		})
	}
}

// checkResult fails the test unless a run ended with code and with output that matches pattern.
func (r result) checkResult(t *testing.T, code int, pattern string) {
	t.Helper()
	if r.code != code || !regexp.MustCompile(pattern).MatchString(r.out+r.err) {
		t.Errorf("exit code %d, want %d and %q; said\n%s%s", r.code, code, pattern, r.out, r.err)
	}
}

func checkHelp(t *testing.T, c *cluster) {
	for _, program := range []string{"sbatch", "srun", "salloc"} {
		got := c.runScript(t, program+" --help").mustSucceed(t)
		for _, line := range []string{
			"--singularity=[KEY=VALUE,...]", "--singularity-interval=TIME", "--singularity-gpus=MIN[-MAX]",
			"--singularity-on-failure=hold|restart", "--singularity-exact=[yes|no]", "--singularity-outside=reset|relay|refuse", "--singularity-listen=PORT,...", "--singularity-exclude=PATH,...", "--singularity-lease=JOB",
		} {
			if !strings.Contains(got, line) {
				t.Errorf("%s --help does not show %s", program, line)
			}
		}
	}
}

func refusedAtSubmission(t *testing.T, c *cluster) {
	const list = `accepted: on, off, or a list of interval=, gpus=, on-failure=, exact, outside=, listen=, exclude= and lease=, separated by commas`
	jobs := c.runScript(t, "squeue -h -a -o %i; sacct -n -X -o jobid").mustSucceed(t)
	for _, k := range []struct{ run, said string }{
		{"sbatch --singularity=yes --wrap true", `sbatch: error: singularity: --singularity=yes: unknown; ` + list},
		{"sbatch --singularity=colour=red --wrap true", `singularity: --singularity=colour=red: unknown; ` + list},
		{"sbatch --singularity-interval=5s --wrap true", `singularity: --singularity-interval=5s: shorter than 10 seconds; accepted: minutes, MM:SS, .* at least 10s`},
		{"sbatch --singularity-gpus=8-4 --wrap true", `singularity: --singularity-gpus=8-4: the minimum is above the maximum; accepted: MIN or MIN-MAX`},
		{"sbatch --gpus=4 --singularity-gpus=6-8 --wrap true", `singularity: --singularity-gpus=6-8: the job asks Slurm for 4 GPUs, and MIN can be no more: write --singularity-gpus=4-8`},
		{"srun --singularity-exact=maybe true", `srun: error: singularity: --singularity-exact=maybe: neither yes nor no; accepted: yes, no`},
		{"salloc --singularity-on-failure=panic true", `salloc: error: singularity: --singularity-on-failure=panic: neither of the two; accepted: hold or restart`},
		{"salloc --singularity-outside=keep true", `salloc: error: singularity: --singularity-outside=keep: none of the three; accepted: reset, relay or refuse`},
		{"salloc --singularity-exclude=tmp true", `singularity: --singularity-exclude=tmp: a relative path; accepted: absolute paths`},
		{`printf '#!/bin/sh\n#SBATCH --singularity-gpus=none\n' | sbatch`, `singularity: --singularity-gpus=none: not a number of GPUs; accepted: MIN`},
		{"SINGULARITY_SLURM=often sbatch --wrap true", `singularity: SINGULARITY_SLURM=often: unknown; ` + list},
		{"srun --singularity --pty true", `srun: error: singularity: --pty: a terminal cannot be captured.*--singularity=off`},
		{"SINGULARITY_SLURM=1 srun -N1 --pty true", `srun: error: singularity: --pty`},
	} {
		r := c.runScript(t, k.run)
		if r.code == 0 {
			t.Errorf("%s: exit code 0, want an error", k.run)
		}
		r.checkResult(t, r.code, k.said)
	}
	if after := c.runScript(t, "squeue -h -a -o %i; sacct -n -X -o jobid").mustSucceed(t); after != jobs {
		t.Errorf("refused calls have made jobs: before %q, after %q", jobs, after)
	}
}

func checkStatuses(t *testing.T, c *cluster) {
	for _, k := range []struct {
		run  string
		code int
	}{
		{"true", 0}, {"bash -c 'exit 3'", 3}, {"bash -c 'exit 255'", 255}, {"bash -c 'kill -TERM $$'", 143},
		{"bash -c 'kill -SEGV $$'", 139}, {"bash -c 'kill -KILL $$'", 137}, {"/no/such", 127}, {"/tmp", 126},
	} {
		if r := c.runScript(t, "srun --singularity "+k.run); r.code != k.code {
			t.Errorf("%s: exit code %d, want %d; said %s%s", k.run, r.code, k.code, r.out, r.err)
		}
	}
	for _, k := range []struct{ script, want string }{
		{"exit 0", "ExitCode=0:0"}, {"exit 3", "ExitCode=3:0"}, {"kill -TERM $$", "ExitCode=0:15"}, {"kill -KILL $$", "ExitCode=0:9"},
	} {
		if about, _ := c.waitForEnd(t, c.submitJob(t, "--singularity", k.script)); !strings.Contains(about, k.want) {
			t.Errorf("%s: want %s; is %s", k.script, k.want, about)
		}
	}
}

func checkStreams(t *testing.T, c *cluster) {
	want := c.runScript(t, "seq 2000000 | md5sum").mustSucceed(t)
	c.runScript(t, "seq 2000000 | srun --singularity md5sum").checkResult(t, 0, "^"+regexp.QuoteMeta(want)+"$")
	got := c.runScript(t, `srun -Q --singularity -N2 -n4 -l bash -c 'echo out; echo err >&2; hostname' 2>&1 | sort`).mustSucceed(t)
	if lines := strings.Split(strings.TrimSpace(got), "\n"); len(lines) != 12 || lines[0] != "0: err" || lines[1] != "0: in-n1" || lines[11] != "3: out" {
		t.Errorf("srun -l with 4 tasks on 2 nodes: got %q, want 12 lines with the task's number", got)
	}
	c.runScript(t, `rm -f file.*; srun -Q -N1 --singularity -n2 -o file.%t bash -c 'echo $SLURM_PROCID'; cat file.0 file.1`).checkResult(t, 0, "^0\n1\n$")
}

// look prints the surroundings in which a program was started, as far as the program can see them.
const look = `id; pwd; umask; ulimit -a; nice; readlink /proc/self/cwd
grep -E '^(Umask|Uid|Gid|Groups|SigBlk|SigIgn|SigCgt|ShdPnd|Cap|NoNewPrivs|Seccomp|Cpus_allowed|Mems_allowed|CoreDumping)' /proc/self/status
cat /proc/self/oom_score_adj /proc/self/personality; ls /proc/$$/fd; trap
env -0 | sort -z | tr '\0' '\n' | grep -vE '^(SLURM_(STEP_?ID|TASK_PID|STEP_LAUNCHER_PORT|SRUN_COMM_PORT|LAUNCH_NODE_IPADDR)|TMPDIR|_)='`

// asOutside: a program in a capsule finds the same surroundings as outside, affinity, limits, groups,
// environment and working directory included.
func asOutside(t *testing.T, c *cluster) {
	writeFile(t, c.shared+"/look", "#!/bin/bash\n"+look, 0o755)
	writeFile(t, c.shared+"/taskprolog", "#!/bin/sh\necho export FROM_PROLOG=yes\n", 0o755)
	job := c.submitJob(t, "-n2 --singularity=exclude=/batchplain", `
		ulimit -Sn 1000; ulimit -Sc 0; umask 027; export WORD='two  words'; cd /shared/home/alice
		srun -n1 --task-prolog=/shared/live/taskprolog /shared/live/look >/shared/live/inside 2>&1
		srun -n1 --singularity=off --task-prolog=/shared/live/taskprolog /shared/live/look >/shared/live/outside 2>&1
		cd /shared/live; wc -l inside; grep -c ^FROM_PROLOG=yes inside
		grep -v ^SLURM_SPANK__ inside >a; grep -v ^SLURM_SPANK__ outside >b; diff a b && echo same`)
	_, log := c.waitForEnd(t, job)
	if !strings.HasSuffix(log, " inside\n1\nsame\n") {
		t.Errorf("inside and outside of a capsule differ: %s", log)
	}
}

// fewDescriptors: the job's limit may be below the number of the descriptor of /proc.
func fewDescriptors(t *testing.T, c *cluster) {
	c.runScript(t, `ulimit -n 64; srun -Q -w n1 --singularity -o few bash -c 'ulimit -n; ls /proc/self/fd | wc -l; hostname'; cat few`).checkResult(t, 0, "^64\n4\nin-n1\n$")
}

func checkSignals(t *testing.T, c *cluster) {
	// No child processes: they would get the signal too, and die of it.
	const wait = `mkfifo /tmp/$$; exec 3<>/tmp/$$; echo ready; read -u 3`
	job := c.submitJob(t, "--singularity", `trap 'echo got USR1; exit 5' USR1; `+wait)
	c.waitForLine(t, job, "ready")
	c.runScript(t, "scancel --batch --signal=USR1 "+job).mustSucceed(t)
	if about, log := c.waitForEnd(t, job); log != "ready\ngot USR1\n" || !strings.Contains(about, "ExitCode=5:0") {
		t.Errorf("a batch script that got USR1: log = %q, job = %s", log, about)
	}
	job = c.submitJob(t, "-n2 --singularity=exclude=/batchplain", `srun -n2 bash -c 'trap "echo got USR1; exit 0" USR1; `+wait+`'; echo srun $?`)
	c.waitForLine(t, job, "ready\nready")
	c.runScript(t, "scancel --signal=USR1 "+job+".0").mustSucceed(t)
	if _, log := c.waitForEnd(t, job); log != "ready\nready\ngot USR1\ngot USR1\nsrun 0\n" {
		t.Errorf("a step that got USR1: log = %q", log)
	}
	job = c.submitJob(t, "--singularity", `echo ready; sleep 100`)
	c.waitForLine(t, job, "ready")
	c.runScript(t, "scancel "+job).mustSucceed(t)
	if about, _ := c.waitForEnd(t, job); !strings.Contains(about, "JobState=CANCELLED") {
		t.Errorf("a cancelled job is not CANCELLED: %s", about)
	}
}

func checkArray(t *testing.T, c *cluster) {
	job := c.submitJob(t, "--array=0-2 --singularity=interval=1:00 -o array.%a", "echo $SLURM_ARRAY_TASK_ID $(hostname); exit $SLURM_ARRAY_TASK_ID")
	c.waitUntilIdle(t)
	want := regexp.MustCompile(`^0 in-n[12]\n1 in-n[12]\n2 in-n[12]\n0:0\n1:0\n2:0\n$`)
	waitFor(t, 20*time.Second, func() (bool, string) { // accounting comes later
		got := c.runScript(t, "cat array.0 array.1 array.2; sacct -n -X -P -o exitcode -j "+job+" | sort").mustSucceed(t)
		return want.MatchString(got), got
	})
}

func multiProg(t *testing.T, c *cluster) {
	writeFile(t, c.shared+"/multi.conf", "0 bash -c 'echo task $SLURM_PROCID of $(hostname)'\n1-2 /bin/echo task %t offset %o\n", 0o644)
	r := c.runScript(t, "srun -Q --singularity -w n1 -n3 --multi-prog multi.conf | sort")
	if !c.multiProg {
		r.checkResult(t, 0, "srun: error: singularity: --multi-prog needs Slurm 23.11")
		c.runScript(t, "srun -Q --singularity=off -w n1 -n3 --multi-prog multi.conf | sort").checkResult(t, 0, "task 2 offset 1")
		return
	}
	r.checkResult(t, 0, "^task 0 of in-n1\ntask 1 offset 0\ntask 2 offset 1\n$")
}

func checkSalloc(t *testing.T, c *cluster) {
	c.runScript(t, "salloc -w n1 --singularity true").checkResult(t, 0, "salloc: singularity: what salloc starts runs unprotected: .*singctl session start")
	c.runScript(t, "salloc -w n1 --singularity=interval=30s srun hostname").checkResult(t, 0, "in-n1\n")
	c.runScript(t, "salloc -w n1 --singularity srun --singularity=off hostname").checkResult(t, 0, "(?m)^n1\n")
	c.runScript(t, "salloc -w n1 srun hostname").checkResult(t, 0, "(?m)^n1\n")
	// As salloc itself starts its shell on the node, where LaunchParameters has use_interactive_step.
	c.runScript(t, "salloc -w n1 --singularity srun --interactive --preserve-env --pty hostname").checkResult(t, 0, "(?m)^n1\r?\n")
	c.runScript(t, "SINGULARITY_SLURM=1 salloc -w n1 srun hostname").checkResult(t, 0, "in-n1\n")
	c.runScript(t, "SINGULARITY_SLURM=1 salloc -w n1 --singularity=off srun hostname").checkResult(t, 0, "(?m)^n1\n")
}

// innerSrun: options of the batch script reach its steps. The script's path is only in the script's own
// request, and the key of a step only in the step's.
func innerSrun(t *testing.T, c *cluster) {
	job := c.submitJob(t, "-N2", `#SBATCH --singularity=exclude=/batchplain,interval=20m
#SBATCH --singularity-exclude=/data,/cache
		export SINGULARITY_SLURM_STEP=s7
		srun -Q -N2 -l bash -c 'hostname; echo ${SINGULARITY_SLURM_STEP-unset}' | sort
		srun -Q -N1 -n1 --singularity=off hostname
		env | grep -c SBATCH_OPEN_MODE`)
	_, log := c.waitForEnd(t, job)
	if log != "0: in-n1\n0: unset\n1: in-n2\n1: unset\nn1\n0\n" {
		t.Errorf("log = %q, want two tasks in capsules and one outside", log)
	}
	joins, _ := c.readHeard(t, job)
	if len(joins) != 3 {
		t.Fatalf("proxyd got %d requests, want 3: %+v", len(joins), joins)
	}
	for _, j := range joins {
		if j.Options["interval"] != "1200" || j.Options["exclude"] != "/data,/cache" || j.UID != 1001 || j.GID != 1001 || j.Dir != "/shared/live" {
			t.Errorf("the options, user or folder of a request are wrong: %+v", j)
		}
		if step := j.Step == "0"; step != (j.Key == "s7") || step != (j.Tasks == 2) || step == (j.Script != "") {
			t.Errorf("the key, number of tasks or script of a request is wrong: %+v", j)
		}
	}
}
