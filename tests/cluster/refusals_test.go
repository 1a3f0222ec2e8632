//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// refusal is a batch script with a command that cannot be captured, and the messages about the command.
type refusal struct {
	command string // prints "ready", and stays
	check   string // the message of singctl check; "": the script's text does not show that the command is refused
	name    string // of the program that is named
	what    string
}

const (
	checkContainer = "containers that a job starts itself are not captured: submit it with sbatch --container, or start the step with srun --container"
	cureContainer  = ": have Slurm start the container: sbatch --container or srun --container"
)

var refusals = map[string]refusal{
	"bwrap": {
		"bwrap --unshare-all --die-with-parent --dev-bind / / --proc /proc sh -c 'echo ready; exec sleep 1000'", checkContainer,
		"sleep", "is in a container of its own (user, PID, mount namespace)" + cureContainer,
	},
	"unshare -U": {
		"unshare -U sh -c 'echo ready; exec sleep 1000'", checkContainer,
		"sleep", "is in a container of its own (user namespace)" + cureContainer,
	},
	"unshare -r": {
		"unshare -r --mount sh -c 'echo ready; exec sleep 1000'", checkContainer,
		"sleep", "is in a container of its own (user, mount namespace)" + cureContainer,
	},
	// The namespaces that rootless Podman makes, in its order. No tree of a test cluster has Podman.
	"Podman's namespaces": {
		"unshare --map-root-user --mount unshare --mount --pid --net --uts --ipc --cgroup --fork --mount-proc sh -c 'echo ready; exec sleep 1000'",
		checkContainer, "sleep", "is in a container of its own (user, PID, mount namespace)" + cureContainer,
	},
	"io_uring": {
		"./holds io_uring", "",
		"holds", "uses io_uring: switch io_uring off in the program",
	},
	"perf": {
		"./holds perf", "",
		"holds", "measures performance counters: run the program without its profiler",
	},
	"userfaultfd": {
		"./holds userfaultfd", "",
		"holds", "handles page faults itself: switch that off in the program",
	},
	"Landlock": {
		"./holds landlock", "",
		"holds", "has confined itself by Landlock: run the program without its sandbox",
	},
	"tracer": {
		"./holds tracer", "",
		"holds", "is traced by holds: end the debugger or tracer",
	},
	"System V memory of two programs": {
		"srun -n1 -o step.$SLURM_JOB_ID ./holds segment & until grep -q ready step.$SLURM_JOB_ID; do sleep 0.1; done; ./holds segment", "",
		"holds", "shares System V memory with another program of the job: have a single task start both programs",
	},
}

// TestRefusals: each program that docs/silent-gaps.md lists as refused is named, with advice, by singctl check, by
// singctl checkpoint, by singctl show and in the comment. The job runs on; requeued, it begins anew.
func TestRefusals(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-refusals", "--nodes", "2", "--with-corpus")
	if out, err := exec.Command("gcc", "-static", "-O", "-Wall", "-Werror", "-o", c.homePath("holds"), filepath.Join("testdata", "holds.c")).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	t.Run("captured or not", func(t *testing.T) {
		for name, row := range refusals {
			t.Run(name, func(t *testing.T) { t.Parallel(); c.isRefused(t, row) })
		}
		t.Run("io_uring by the C library", func(t *testing.T) { t.Parallel(); c.doesWithoutCall(t, "425, 4, ctypes.create_string_buffer(256)") })
		t.Run("Landlock by the C library", func(t *testing.T) { t.Parallel(); c.doesWithoutCall(t, "444, None, 0, 1") })
		t.Run("found by criu", func(t *testing.T) { t.Parallel(); c.namesPidfd(t) })
		t.Run("components", func(t *testing.T) { t.Parallel(); c.failsComponents(t) })
		t.Run("multi-prog", func(t *testing.T) { t.Parallel(); c.capturesPrograms(t) })
	})
	t.Run("heterogeneous", func(t *testing.T) { c.runsHeterogeneous(t) })
}

// writeScript writes a batch script into alice's home, and returns the script's name.
func (c protected) writeScript(t *testing.T, text string) string {
	t.Helper()
	name := strings.NewReplacer(" ", "_", "'", "").Replace(filepath.Base(t.Name())) + ".sh"
	if err := os.WriteFile(c.homePath(name), []byte("#!/bin/bash\n#SBATCH --singularity\n"+text+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// submitFile submits a script of alice's home.
func (c protected) submitFile(t *testing.T, script string) string {
	t.Helper()
	return c.runScript(t, "cd; sbatch --parsable --output=%j.log "+script)
}

func (c protected) isRefused(t *testing.T, r refusal) {
	script := c.writeScript(t, "[ -e began.$SLURM_JOB_ID ] && { echo again; "+untilAnewTold+"; exit; }\n"+
		"touch began.$SLURM_JOB_ID\n"+r.command)
	if r.check != "" {
		c.checkCommand(t, "alice", "cd; singctl check "+script, 8, "^"+script+`:5: not captured: .*\n    do: `+regexp.QuoteMeta(r.check)+"$")
	} else {
		c.checkCommand(t, "alice", "cd; singctl check "+script, 0, "^"+script+": nothing in its text stands in the way of checkpoints$")
	}
	job := c.submitFile(t, script)
	c.waitForLine(t, job, "ready")
	more := `(?: and 1 more)?` // of two programs that share something, both are meant
	line := `^  batch on n[12]: process \d{2,} \(` + r.name + `\)` + more + `: ` + regexp.QuoteMeta(r.what)
	c.checkCommand(t, "alice", "singctl checkpoint -q "+job, 5, "^singctl: job "+job+": checkpoint 1: prepare: this cannot be captured:$", line+"$",
		"^hint: the job runs on as before; end what is named, or wait for it, and try again$")
	c.checkCommand(t, "alice", "singctl show "+job, 0, "^stands in the way of a checkpoint:$", line+` \(since .*\)$`)
	waitFor(t, 60*time.Second, func() (bool, string) {
		said := c.runAsRoot(t, "scontrol show job "+job+" | grep -w Comment")
		return strings.Contains(said, "singularity: ") && strings.Contains(said, r.name+" (PID ") && strings.Contains(said, r.what), said
	})

	c.beginsAnew(t, job, r.what)

	// A requeue comes as soon as the job has begun: too little work is lost to be reported.
	job = c.submitFile(t, script)
	c.waitForLine(t, job, "ready")
	c.beginsAnew(t, job, r.what)
}

// untilAnewTold has a script wait until the job's log and comment say that the run begins anew. proxyd writes them while the script
// runs, and Slurm's accounting does not take changes of the comment after a job's end.
const untilAnewTold = `until grep -q "begins anew" $SLURM_JOB_ID.log && scontrol show job $SLURM_JOB_ID | grep -q "AdminComment=.*begins anew"; do sleep 0.2; done`

// beginsAnew requeues a job that cannot be captured: its log has a line about that, and the comment names the obstacle, too.
func (c protected) beginsAnew(t *testing.T, job, obstacle string) {
	t.Helper()
	c.runAsRoot(t, "scontrol requeue "+job)
	c.restartJob(t, job, "")
	if s := c.waitForEnd(t, job); !strings.Contains(s, "COMPLETED") {
		t.Errorf("the job ended as %s, want COMPLETED", s)
	}
	if log := c.jobLog(job); !strings.Contains(log+"\n", "\nagain\n") || strings.Count(log, "singularity: this run begins anew, for there is no checkpoint") != 1 {
		t.Errorf("the job's log is not as expected:\n%s", log)
	}
	waitFor(t, 20*time.Second, func() (bool, string) {
		said := c.runAsRoot(t, "sacct --noheader --parsable2 --duplicates --allocations --jobs="+job+" --format=AdminComment")
		return strings.Contains(said, obstacle) && strings.Contains(said, "singularity: begins anew, for there is no checkpoint"), said
	})
}

// doesWithoutCall: a program that asks the C library for io_uring or Landlock, by a system call with arguments, gets the
// error of a kernel without it, and is captured.
func (c protected) doesWithoutCall(t *testing.T, arguments string) {
	job := c.submitFile(t, c.writeScript(t, `python3 -c '
import ctypes, os, time
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall(`+arguments+`), os.strerror(ctypes.get_errno()), flush=True)
time.sleep(1000)'`))
	c.waitForLine(t, job, "-1 Function not implemented")
	c.checkCommand(t, "alice", "singctl checkpoint -q "+job, 0)
	c.runAsRoot(t, "scancel "+job)
}

// namesPidfd: an obstacle that only CRIU finds is told as the others are, with its cure, and the job runs on.
func (c protected) namesPidfd(t *testing.T) {
	job := c.submitFile(t, c.writeScript(t, `python3 -c '
import os, time
fd = os.pidfd_open(1)
print("ready", flush=True)
while not os.path.exists("end.%s" % os.environ["SLURM_JOB_ID"]): time.sleep(0.1)
os.close(fd)
print("ended", flush=True); time.sleep(1000)'`))
	c.waitForLine(t, job, "ready")
	const line = `^  batch on n[12]: process \d+ \(python3\): holds a pidfd of process 1, which is not the program's: have it close that before a checkpoint`
	c.checkCommand(t, "alice", "singctl checkpoint -q "+job, 5, "^singctl: job "+job+": checkpoint 1: dump: this cannot be captured:$", line,
		"^hint: the job runs on as before; end what is named, or wait for it, and try again$")
	c.checkCommand(t, "alice", "singctl show "+job, 0, "^stands in the way of a checkpoint:$", line+`.* \(since .*\)$`)
	c.runScript(t, "cd; touch end."+job)
	c.waitForLine(t, job, "ended")
	c.checkCommand(t, "alice", "singctl checkpoint -q "+job, 0)
	if said := c.runScript(t, "singctl show "+job); strings.Contains(said, "stands in the way") {
		t.Errorf("after a checkpoint singctl show still has an obstacle:\n%s", said)
	}
	c.runAsRoot(t, "scancel "+job)
}

// failsComponents: a step of several components is captured with its job, and fails by name when the job resumes.
func (c protected) failsComponents(t *testing.T) {
	script := c.writeScript(t, "#SBATCH -N2\nsrun -N1 sh -c 'echo ready; exec sleep 1000' : -N1 sleep 1000\necho srun $?")
	c.checkCommand(t, "alice", "cd; singctl check "+script, 8, "^"+script+`:4: changed: srun .*\n`+
		"    do: a step of several components that runs at a checkpoint fails when the job resumes: use --multi-prog$")
	job := c.submitFile(t, script)
	c.waitForLine(t, job, "ready")
	c.runAsRoot(t, "scontrol requeue "+job)
	c.restartJob(t, job, "")
	if s := c.waitForEnd(t, job); !strings.Contains(s, "COMPLETED") {
		t.Errorf("the job ended as %s, want COMPLETED", s)
	}
	if log := c.jobLog(job); !strings.Contains(log, "a step of several components cannot be restored, for Slurm does not tell its tasks apart: start its programs with srun --multi-prog\n") || !strings.HasSuffix(log, "\nsrun 1") {
		t.Errorf("the job's log is not as expected:\n%s", log)
	}
}

// capturesPrograms: a step of several programs, which the message of failsComponents advises, is captured.
func (c protected) capturesPrograms(t *testing.T) {
	job := c.submitFile(t, c.writeScript(t, `#SBATCH -N2 -n2
echo 'for i in $(seq 60); do echo $1 $i; sleep 0.2; done' > count.sh
printf '0 bash count.sh a\n1 bash count.sh b\n' > programs.conf
srun --multi-prog programs.conf; echo srun $?`))
	var want []string
	for n := range 60 {
		want = append(want, fmt.Sprint("a ", n+1), fmt.Sprint("b ", n+1))
	}
	for _, line := range []string{"a 5", "b 15"} {
		c.waitForLine(t, job, line)
		c.runAsRoot(t, "scontrol requeue "+job)
		c.restartJob(t, job, "")
	}
	if s := c.waitForEnd(t, job); !strings.Contains(s, "COMPLETED") {
		t.Errorf("the job ended as %s, want COMPLETED", s)
	}
	lines, ended := strings.CutSuffix(c.jobLog(job), "\nsrun 0")
	got := strings.Split(lines, "\n")
	slices.Sort(got)
	slices.Sort(want)
	if !ended || !slices.Equal(got, want) {
		t.Errorf("the job's log is not as expected:\n%s", c.jobLog(job))
	}
}

// runsHeterogeneous: a heterogeneous job runs unprotected; its log and singctl's commands say so.
func (c protected) runsHeterogeneous(t *testing.T) {
	script := c.writeScript(t, "#SBATCH -n1\n#SBATCH hetjob\n#SBATCH -n1\necho ready; exec sleep 1000")
	c.checkCommand(t, "alice", "cd; singctl check "+script, 8, "^"+script+`:4: unprotected: #SBATCH hetjob\n`+
		"    do: ask for nodes of a single kind: heterogeneous jobs are not protected$", "^sbatch was not asked: it tests no heterogeneous jobs$")
	written := c.submitFile(t, script)
	typed := c.runScript(t, `cd; sbatch --parsable --output=%j.log --singularity -n1 : -n1 <<'X'
#!/bin/bash
echo ready; exec sleep 1000
X`)
	for _, job := range []string{written, typed} {
		c.waitForLine(t, job, "ready")
		const why = "singularity: this job runs unprotected: heterogeneous jobs are not protected: ask for nodes of a single kind"
		if log := c.jobLog(job); log != why+"\nready" {
			t.Errorf("the job's log is not as expected:\n%s", log)
		}
		for _, command := range []string{"singctl checkpoint -q ", "singctl show "} {
			c.checkCommand(t, "alice", command+job, 2, "^singctl: job "+job+" has 2 components; name one, as in "+job+`\+0$`)
			for _, component := range []string{job + "+0", job + "+1"} {
				c.checkCommand(t, "alice", command+component, 5, "^hint: ask for nodes of a single kind$",
					"^singctl: job "+regexp.QuoteMeta(component)+" runs unprotected: heterogeneous jobs are not protected$")
			}
		}
		c.runAsRoot(t, "scancel "+job)
	}
}
