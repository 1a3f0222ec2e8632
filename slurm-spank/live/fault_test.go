//go:build live

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// waitForLine waits for a line of a running job's log.
func (c *cluster) waitForLine(t *testing.T, job, what string) {
	t.Helper()
	waitFor(t, 30*time.Second, func() (bool, string) {
		log, _ := os.ReadFile(filepath.Join(c.shared, "slurm-"+job+".out"))
		return strings.Contains(string(log), what), fmt.Sprintf("job %s has not said %q: %q", job, what, log)
	})
}

// waitUntilIdle waits until Slurm's queue is empty.
func (c *cluster) waitUntilIdle(t *testing.T) {
	t.Helper()
	waitFor(t, time.Minute, func() (bool, string) {
		left := c.runOn(t, "ctl", "", "squeue", "-h").mustSucceed(t)
		return left == "", left
	})
}

// checkAnswers: each kind of answer of proxyd has its effect on the task.
func checkAnswers(t *testing.T, c *cluster) {
	c.runScript(t, "srun --singularity-exclude=/refuse true").checkResult(t, 125, "(?m)^singularity: the checkpoint 3 cannot be restored: as the test wants it\n")
	c.runScript(t, "srun -Q -w n1 --singularity-exclude=/plain hostname").checkResult(t, 0, "(?s)n1\n.*singularity: this job runs unprotected: as the test wants it\n")
	for status, code := range map[int]int{0: 0, 3 << 8: 3, 9: 137, 15: 143} {
		r := c.runScript(t, fmt.Sprintf("srun --singularity-exclude=/finished-%d echo it ran", status))
		r.checkResult(t, code, "")
		if strings.Contains(r.out, "it ran") {
			t.Errorf("a task that had finished ran again: %+v", r)
		}
	}
	about, log := c.waitForEnd(t, c.submitJob(t, "--singularity-exclude=/refuse", "echo it ran"))
	if log != "singularity: the checkpoint 3 cannot be restored: as the test wants it\n" || !strings.Contains(about, "ExitCode=125:0") {
		t.Errorf("a refused batch script: log = %q, job = %s, want the reason and exit code 125", log, about)
	}
	if c.multiProg { // 22.05 is refused before
		c.runScript(t, "srun --singularity-exclude=/refuse --multi-prog multi.conf").checkResult(t, 125, "singularity: the checkpoint 3")
	}
}

// proxydDies: proxyd dies while a task waits for its answer, and the plugin asks the next proxyd again.
func proxydDies(t *testing.T, c *cluster) {
	c.runScript(t, "srun -Q -w n1 --singularity-exclude=/die hostname").checkResult(t, 0, "^in-n1\n$")
}

// killWait is Slurm's default time between SIGTERM and SIGKILL for a process that does not end by itself.
const killWait = 30 * time.Second

// cancelledWhileWaiting: a job that is cancelled while a task waits for proxyd ends before KillWait is over.
func cancelledWhileWaiting(t *testing.T, c *cluster) {
	for _, script := range []string{"true", "srun true"} {
		options := "--singularity-exclude=/hang"
		if script != "true" { // the step hangs, not the script
			options = "--singularity=off"
			script = "srun --singularity=exclude=/hang true"
		}
		job := c.submitJob(t, options, script)
		waitFor(t, time.Minute, func() (bool, string) {
			joins, _ := c.readHeard(t, job)
			return len(joins) > 0, "proxyd got no request of the job"
		})
		start := time.Now()
		c.runScript(t, "scancel "+job).mustSucceed(t)
		about, _ := c.waitForEnd(t, job)
		if took := time.Since(start); took >= killWait || !strings.Contains(about, "JobState=CANCELLED") {
			t.Errorf("a cancelled job with %s ended after %s, want it CANCELLED within KillWait: %s", options, took, about)
		}
	}
}

// logAppended: a job that starts again has both runs in its log, for each way of asking for the plugin.
func logAppended(t *testing.T, c *cluster) {
	const script = `echo run ${SLURM_RESTART_COUNT:-0}; test -n "$SLURM_RESTART_COUNT" || sleep 60`
	var jobs []string
	for _, k := range []struct{ options, script string }{
		{"--singularity", script},
		{"", "#SBATCH --singularity\n" + script},
		{"", script}, // did not ask: Slurm empties the log, as usual
	} {
		jobs = append(jobs, c.submitJob(t, "-n1 "+k.options, k.script))
	}
	jobs = append(jobs, strings.TrimSpace(c.runScript(t, fmt.Sprintf("SINGULARITY_SLURM=1 sbatch --parsable -n1 --wrap '%s'", script)).mustSucceed(t)))
	for _, job := range jobs {
		c.waitForLine(t, job, "run 0")
	}
	c.runOn(t, "ctl", "", "scontrol", "requeue", strings.Join(jobs, ",")).mustSucceed(t)
	for i, job := range jobs {
		waitFor(t, time.Minute, func() (bool, string) {
			about := c.runOn(t, "ctl", "", "scontrol", "-o", "show", "job", job).mustSucceed(t)
			return strings.Contains(about, "JobState=PENDING") && !strings.Contains(about, "COMPLETING"), about
		})
		if i == 0 {
			time.Sleep(2 * time.Second) // a credential must be newer than the end of the last
		}
		c.runOn(t, "ctl", "", "scontrol", "update", "JobId="+job, "StartTime=now").mustSucceed(t)
	}
	for i, job := range jobs {
		_, log := c.waitForEnd(t, job)
		asked := i != 2
		if strings.Contains(log, "run 0\n") != asked || !strings.HasSuffix(log, "run 1\n") {
			t.Errorf("job %d of %d: log = %q, want the expected runs", i+1, len(jobs), log)
		}
	}
}

// checkOtherJobs: a job that came by REST and not from sbatch, with the environment that the documentation describes.
func checkOtherJobs(t *testing.T, c *cluster) {
	version := map[string]string{"forky": "v0.0.45", "trixie": "v0.0.42", "bookworm": "v0.0.38"}[c.name]
	submit := func(name, value string) string {
		forwarded := "_SLURM_SPANK_OPTION_singularity_" + name
		job := map[string]any{
			"name": "rest", "account": "research", "current_working_directory": "/shared/live", "standard_output": "/shared/live/slurm-%j.out",
			"open_mode": "append", "tasks": 1,
		}
		env := []string{"PATH=/bin:/usr/bin", forwarded + "=" + value, "SLURM_SPANK_" + forwarded + "=" + value}
		script := "#!/bin/bash\nhostname; env | grep -c ^_SLURM_SPANK\n"
		var body map[string]any
		if c.name == "bookworm" {
			vars := map[string]string{}
			for _, e := range env {
				k, v, _ := strings.Cut(e, "=")
				vars[k] = v
			}
			job["environment"] = vars
			body = map[string]any{"job": job, "script": script}
		} else {
			job["environment"] = env
			job["spank_environment"] = []string{forwarded + "=" + value}
			job["script"] = script
			body = map[string]any{"job": job}
		}
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		token := strings.TrimPrefix(strings.TrimSpace(c.runOn(t, "ctl", "", "scontrol", "token", "username=alice").mustSucceed(t)), "SLURM_JWT=")
		r := c.runOn(t, "ctl", "", "curl", "-s", "-H", "X-SLURM-USER-NAME: alice", "-H", "X-SLURM-USER-TOKEN: "+token,
			"-H", "Content-Type: application/json", "-d", string(b), "http://ctl:6820/slurm/"+version+"/job/submit")
		id := regexp.MustCompile(`"job_id": *(\d+)`).FindStringSubmatch(r.mustSucceed(t))
		if id == nil {
			t.Fatalf("the answer to the submission has no job number: %s", r.out)
		}
		return id[1]
	}
	job := submit("singularity", "interval=15m")
	_, log := c.waitForEnd(t, job)
	joins, ends := c.readHeard(t, job)
	if !strings.HasPrefix(log, "in-n") || !strings.HasSuffix(log, "\n0\n") || len(joins) != 1 || joins[0].Options["interval"] != "900" {
		t.Errorf("a job of REST: log = %q, requests = %+v, want a run in a capsule and one request with interval 900", log, joins)
	}
	if c.name != "bookworm" && len(ends) != 1 { // v0.0.38 has no spank_environment
		t.Errorf("a job of REST: proxyd got %d requests for its end, want 1", len(ends))
	}
	job = submit("singularity_interval", "5s")
	about, log := c.waitForEnd(t, job)
	if !strings.Contains(log, "singularity: --singularity-interval=5s: shorter than 10 seconds; accepted: ") || !strings.Contains(about, "ExitCode=125:0") {
		t.Errorf("a job of REST with a wrong interval: log = %q, job = %s, want the reason and exit code 125", log, about)
	}
}

// checkUntouched: for a job that did not ask, proxyd gets no request, the programs see no variable of ours, and slurmd
// opens no file of ours.
func checkUntouched(t *testing.T, c *cluster) {
	const script = `env | grep -i singularity; hostname; srun sh -c 'env | grep -i singularity; hostname'`
	job := ""
	trace := c.traceFiles(t, "n1", func() {
		job = c.submitJob(t, "-w n1", script)
		c.waitForEnd(t, job)
	})
	_, log := c.waitForEnd(t, job)
	joins, ends := c.readHeard(t, job)
	if log != "n1\nn1\n" || len(joins)+len(ends) > 0 {
		t.Errorf("a job that did not ask: log = %q, requests = %v, ends = %v, want a plain run and no request", log, joins, ends)
	}
	if strings.Contains(trace, "/run/singularity-slurm") || strings.Contains(trace, "libexec/singularity-slurm") {
		t.Errorf("for a job that did not ask, files of ours were opened:\n%s", grepLines(trace, "singularity"))
	}
	// The trace of a job that asks does show the socket.
	trace = c.traceFiles(t, "n1", func() { c.waitForEnd(t, c.submitJob(t, "-w n1 --singularity", "true")) })
	if !strings.Contains(trace, `"/run/singularity-slurm/spank.sock"`) {
		t.Errorf("the trace of a job that asked does not have proxyd's socket:\n%s", trace)
	}
}

func grepLines(text, word string) string {
	var found []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			found = append(found, line)
		}
	}
	return strings.Join(found, "")
}

// traceFiles runs f and returns the files and sockets that slurmd of a node and its children
// opened meanwhile.
func (c *cluster) traceFiles(t *testing.T, node string, f func()) string {
	t.Helper()
	inside := strings.TrimSpace(c.runOn(t, node, "", "sh", "-c", "readlink /proc/self/ns/pid; pidof slurmd").mustSucceed(t))
	ns, pid, _ := strings.Cut(inside, "\n")
	outside := ""
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		link, _ := os.Readlink(dir + "/ns/pid")
		status, _ := os.ReadFile(dir + "/status")
		if link == ns && regexp.MustCompile(`(?m)^NSpid:.*\s`+strings.Fields(pid)[0]+`$`).Match(status) {
			outside = filepath.Base(dir)
		}
	}
	if outside == "" {
		t.Fatalf("slurmd of %s is not found", node)
	}
	out := filepath.Join(t.TempDir(), "trace")
	strace := exec.Command("strace", "-f", "-p", outside, "-e", "trace=connect,openat,execve,setns", "-o", out)
	stderr, err := strace.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := strace.Start(); err != nil {
		t.Skip("SKIP: needs strace: ", err)
	}
	var once sync.Once
	attached := make(chan struct{})
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := stderr.Read(b)
			if strings.Contains(string(b[:n]), "attached") || err != nil {
				once.Do(func() { close(attached) })
			}
			if err != nil {
				return
			}
		}
	}()
	<-attached
	f()
	strace.Process.Signal(os.Interrupt)
	strace.Wait()
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// checkPlugstack: mistakes in the plugin's arguments, and nodes without proxyd, hit jobs that
// ask for us, and no other jobs.
func checkPlugstack(t *testing.T, c *cluster) {
	hosts := []string{"ctl", "n1", "n2"}
	set := func(args string, hosts ...string) {
		for _, host := range hosts {
			c.runOn(t, host, "", "sh", "-c", fmt.Sprintf("echo '%s /%s/spank_singularity.so %s' >/etc/slurm/plugstack.conf", c.line, libDir, args)).mustSucceed(t)
		}
	}
	defer set("retry=20", hosts...)

	set("socket=/run/none.sock retry=1", hosts...)
	c.runScript(t, "srun -Q -w n1 --singularity true").checkResult(t, 125, "(?m)^singularity: proxyd is not there: /run/none.sock: No such file or directory\n")
	set("socket=/run/none.sock retry=0 without_proxyd=run", hosts...)
	c.runScript(t, "srun -Q -w n1 -n2 --singularity hostname").checkResult(t, 0, "(?s)n1\nn1\n.*singularity: this job runs unprotected: proxyd is not there: /run/none.sock: No such file")
	about, log := c.waitForEnd(t, c.submitJob(t, "-w n1 --singularity", "hostname"))
	if !strings.Contains(log, "singularity: this job runs unprotected: ") || !strings.HasSuffix(log, "n1\n") || !strings.Contains(about, "ExitCode=0:0") {
		t.Errorf("without_proxyd=run: log = %q, job = %s, want an unprotected run", log, about)
	}

	set("retry=20 warden=/no/such", "n1", "n2")
	c.runScript(t, "srun -Q -w n1 --singularity true").checkResult(t, 125, "singularity: the warden is not installed on this node")

	set("retry=20 colour=red", "n1", "n2")
	c.runScript(t, "srun -Q -w n1 --singularity true").checkResult(t, 125, "(?m)^singularity: plugstack.conf: colour=red: accepted are socket=, warden=, shim=, without_proxyd= and retry=\n")
	c.runScript(t, "srun -Q -w n1 true").checkResult(t, 0, "^$")
	set("retry=20 colour=red", "ctl")
	for _, run := range []string{"sbatch --singularity --wrap true", "srun --singularity true", "salloc --singularity true"} {
		c.runScript(t, run).checkResult(t, 1, "error: singularity: plugstack.conf: colour=red: accepted are socket=")
	}
	c.runScript(t, "srun -Q -w n1 true").checkResult(t, 0, "^$")
	if about, log := c.waitForEnd(t, c.submitJob(t, "-w n1", "hostname")); log != "n1\n" || !strings.Contains(about, "ExitCode=0:0") {
		t.Errorf("wrong arguments of the plugin: log = %q, job = %s, want a job that did not ask to run", log, about)
	}

	set("retry=20 shim=/usr/lib/shim.so", hosts...)
	c.runScript(t, "LD_PRELOAD=/usr/lib/mine.so srun -Q -w n1 --singularity sh -c 'echo $LD_PRELOAD' 2>/dev/null").checkResult(t, 0, "^/usr/lib/mine.so:/usr/lib/shim.so\n$")
	c.runScript(t, "srun -Q -w n1 sh -c 'echo -$LD_PRELOAD-' 2>/dev/null").checkResult(t, 0, "^--\n$")
}

// checkEnds: proxyd gets a request for the end of each job that asked, on each of its nodes, and for no other job.
func checkEnds(t *testing.T, c *cluster) {
	one := c.submitJob(t, "-N2 --singularity", "exit 0")
	two := c.submitJob(t, "-N2", "srun -N2 true")
	c.waitForEnd(t, one)
	c.waitForEnd(t, two)
	waitFor(t, 20*time.Second, func() (bool, string) {
		_, ends := c.readHeard(t, one)
		return len(ends) == 2 && ends[0].Node != ends[1].Node && len(ends[0].Left) == 0, fmt.Sprintf("%+v", ends)
	})
	if joins, ends := c.readHeard(t, two); len(joins)+len(ends) > 0 {
		t.Errorf("a job that did not ask: requests = %v, ends = %v, want none", joins, ends)
	}
}

// notDrained: after all these tests, no node is drained.
func notDrained(t *testing.T, c *cluster) {
	c.waitUntilIdle(t)
	waitFor(t, 20*time.Second, func() (bool, string) { // the scheduler may plan with such a node for a moment
		got := c.runOn(t, "ctl", "", "sinfo", "-h", "-N", "-p", "main", "-o", "%N %t %E").mustSucceed(t)
		return got == "n1 idle none\nn2 idle none\n", got
	})
}
