//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// slowTask is a task that writes its standard input to a file, slowly until a certain file exists. The pause depends
// on its rank. At the end the task says how much it has read.
const slowTask = `perl -e '
	my ($name, $rank) = ($ARGV[0], $ENV{SLURM_PROCID});
	open(my $to, ">", "$name.$rank") or die;
	while (my $n = sysread(STDIN, my $piece, 4096)) {
		$all += syswrite($to, $piece);
		select(undef, undef, undef, 0.02 + 0.1 * $rank) unless -e "$name.go";
	}
	print "rank $rank has read $all\n"' `

// standardInput: tasks read more slowly than their standard input comes, so that the pipe to each task, and all that Slurm has
// on its way, are full at each checkpoint. Each task reads each byte once, in its order, and sees the end.
func standardInput(t *testing.T, c protected) {
	const size = 48 << 20
	c.runOn(t, "ctl", "alice", "bash", "-euc", fmt.Sprintf(`cd; rm -f fed.* piped.* closed.* named.* small.*; yes | head -c 5000 >small.in
		perl -e 'srand(7); print pack("N", rand(2**32)) for 1..%d' >fed.in`, size/4)).mustSucceed(t)
	file := c.submitJob(t, "--singularity -N2 -w n1,n2", `srun -N2 -n2 `+slowTask+` fed <fed.in; echo rc $?`)
	pipe := c.submitJob(t, "--singularity -w n1", `cat fed.in | srun -n1 `+slowTask+` piped; echo rc ${PIPESTATUS[1]}`)
	closed := c.submitJob(t, "--singularity -w n2", `yes | srun -n1 bash -c '
		read x; exec <&-; until [ -e closed.go ]; do sleep 0.1; done; echo $x'; echo rc ${PIPESTATUS[1]}`)
	named := c.submitJob(t, "--singularity -w n2", `srun -n1 -i fed.in `+slowTask+` named; echo rc $?`)
	small := c.submitJob(t, "--singularity -w n2", `srun -n1 -i small.in bash -c '
		echo >small.begun; until [ -e named.go ]; do sleep 0.1; done; wc -c'; echo rc $?`)
	jobs := []string{file, pipe, closed, named, small}
	for _, name := range []string{"fed.0", "fed.1", "piped.0", "named.0", "small.begun"} { // the tasks read
		waitFor(t, 60*time.Second, func() (bool, string) {
			return c.runOn(t, "ctl", "alice", "bash", "-c", "cd; [ -s "+name+" ]").code == 0, name
		})
	}
	for range 2 {
		for range 3 {
			for _, job := range jobs {
				c.runAsRoot(t, "singctl checkpoint "+job)
			}
		}
		c.runAsRoot(t, "scontrol requeue "+strings.Join(jobs, ","))
		for _, job := range jobs {
			c.restartJob(t, job, "")
		}
		for _, job := range jobs {
			waitFor(t, 60*time.Second, func() (bool, string) {
				s := c.showColumn(t, job, "Comment")
				return strings.Contains(s, "restored"), s
			})
		}
	}
	for _, job := range jobs {
		if log := c.jobLog(job); log != "" {
			t.Errorf("job %s has ended: its input was not held back:\n%s", job, log)
		}
	}
	c.runOn(t, "ctl", "alice", "bash", "-c", "cd; touch fed.go piped.go closed.go named.go").mustSucceed(t)
	for _, k := range []struct{ job, want string }{
		{file, fmt.Sprintf("rank 0 has read %d\nrank 1 has read %d\nrc 0", size, size)},
		{pipe, fmt.Sprintf("rank 0 has read %d\nrc 0", size)},
		{named, fmt.Sprintf("rank 0 has read %d\nrc 0", size)},
		{small, "5000\nrc 0"},
		{closed, "y\nrc 0"},
	} {
		if s := c.waitForEnd(t, k.job); !strings.Contains(s, "COMPLETED") {
			t.Errorf("the job's state at its end, want COMPLETED: %v", s)
		}
		lines := strings.Split(c.jobLog(k.job), "\n")
		if lines[0] == fmt.Sprintf("rank 1 has read %d", size) { // the tasks end in any order
			lines[0], lines[1] = lines[1], lines[0]
		}
		if got := strings.Join(lines, "\n"); got != k.want {
			t.Errorf("job %s: log:\n%s", k.job, got)
		}
	}
	c.runOn(t, "ctl", "alice", "bash", "-euc", "cd; for f in fed.0 fed.1 piped.0 named.0; do cmp $f fed.in; done").mustSucceed(t)
}

// largeInput: a checkpoint that would have to read more of an input file than there is room for fails before it reads
// any of it, and names the file.
func largeInput(t *testing.T, c protected) {
	c.runOn(t, "ctl", "alice", "bash", "-c", "cd; rm -f big.*; truncate -s 300M big.in").mustSucceed(t)
	job := c.submitJob(t, "--singularity -w n2", `srun -n1 -i big.in bash -c '
		head -c 1; echo >big.begun; until [ -e big.go ]; do sleep 0.1; done'; echo rc $?`)
	waitFor(t, 60*time.Second, func() (bool, string) {
		return c.runOn(t, "ctl", "alice", "bash", "-c", "cd; [ -s big.begun ]").code == 0, "the task does not run"
	})
	const want = `big.in" itself (--input), and has more than 256 MiB of it before it`
	if r := c.runOn(t, "ctl", "root", "singctl", "checkpoint", job); r.code == 0 || !strings.Contains(r.out+r.err, want) {
		t.Errorf("exit code %d: %s%s", r.code, r.out, r.err)
	}
	if log := c.proxydLog("n2"); strings.Contains(log, "msg=phase job="+job+" reason=asked checkpoint=1 phase=freeze") {
		t.Error("the job was frozen")
	}
	c.runOn(t, "ctl", "alice", "bash", "-c", "cd; touch big.go").mustSucceed(t)
	if s := c.waitForEnd(t, job); !strings.Contains(s, "COMPLETED") {
		t.Errorf("the job's state at its end, want COMPLETED: %v", s)
	}
}

// inputOfOthers: sing-srun does not read its standard input where srun does not.
func inputOfOthers(t *testing.T, c protected) {
	job := c.submitJob(t, "--singularity -w n1", `
		seq 1 4 | while read x; do srun -n1 --input=none echo $x; done
		seq 5 7 | while read x; do SLURM_STDINMODE=none srun -n1 echo $x; done
		echo 8 >input.file; seq 9 9 | { srun -n1 -i input.file cat; cat; }`)
	if s := c.waitForEnd(t, job); !strings.Contains(s, "COMPLETED") {
		t.Errorf("the job's state at its end, want COMPLETED: %v", s)
	}
	if got := c.jobLog(job); got != "1\n2\n3\n4\n5\n6\n7\n8\n9" {
		t.Errorf("the job's log is not as expected:\n%s", got)
	}
}
