//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// lastRound is the last line of testdata/mpi_ring.c with 4 ranks and 80 rounds, on which all earlier ones have an effect.
const lastRound = "80 of 4: d1bde8bf1f131408"

// waitLog waits until a job's log has a line that contains text.
func (c protected) waitLog(t *testing.T, job, text string) {
	t.Helper()
	eventually(t, 90*time.Second, func() (bool, string) {
		log := c.log(job)
		return strings.Contains(log, text), fmt.Sprintf("job %s: no %q in:\n%s", job, text, log)
	})
}

// TestMPI: MPI programs that srun starts with PMI-2 are captured and restored like any other step.
func TestMPI(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-mpi", "--nodes", "3", "--with-corpus")
	source, err := os.ReadFile("testdata/mpi_ring.c")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.home("mpi_ring.c"), source, 0o644); err != nil {
		t.Fatal(err)
	}
	c.sh(t, "cd; mpicc.mpich -O2 -o ring mpi_ring.c")
	const options = "--singularity -N2 -n4 --overcommit -w n1,n2"
	move := func(t *testing.T, job string) {
		c.ctl(t, "scontrol requeue "+job)
		c.ctl(t, "scontrol update ReqNodeList= JobId="+job)
		c.again(t, job, "n1")
	}
	t.Run("moved", func(t *testing.T) { // captured in place, requeued, and requeued again
		job := c.submit(t, options, "srun --mpi=pmi2 ./ring 80; echo ends with $?")
		c.waitLog(t, job, "\n10 of 4: ")
		c.says(t, "alice", "singctl checkpoint "+job, 0)
		c.checkQuiet(t, job)
		move(t, job)
		c.waitLog(t, job, "\n40 of 4: ")
		move(t, job)
		c.checkRounds(t, job)
	})
	t.Run("starting", func(t *testing.T) { // one task is in MPI_Init, and waits for the other
		job := c.submit(t, options, `srun --mpi=pmi2 -n2 -N2 bash -c '[ $SLURM_PROCID = 0 ] || until [ -e ~/go ]; do sleep 0.2; done; exec ./ring 5'; echo ends with $?`)
		eventually(t, 60*time.Second, func() (bool, string) {
			out := c.exec(t, "n1", "", "bash", "-c", "cat /proc/$(pgrep -x ring)/wchan").out
			return strings.Contains(out, "unix_stream"), "rank 0 is not in a fence: " + out
		})
		move(t, job)
		c.sh(t, "touch ~/go")
		c.waitLog(t, job, "ends with 0")
		if log := c.log(job); !strings.HasPrefix(log, "1 of 2: ") || !strings.Contains(log, "\n5 of 2: ") {
			t.Errorf("log:\n%s", log)
		}
	})
	t.Run("aborted", func(t *testing.T) {
		job := c.submit(t, options, "srun --mpi=pmi2 ./ring 80 abort; echo ends with $?")
		c.waitLog(t, job, "ends with ")
		if log := c.log(job); !strings.Contains(log, "application called MPI_Abort") || strings.Contains(log, "ends with 0") {
			t.Errorf("log:\n%s", log)
		}
	})
	t.Run("environment", func(t *testing.T) {
		job := c.submit(t, options, `srun --mpi=pmi2 --export=NONE -N1 -n1 /usr/bin/env | grep -E "^(PMI_[JRS]|UCX_|SINGULARITY_SLURM_(PMI|STEP))" | sort
			srun --mpi=none -N1 -n1 env | grep -c ^PMI_; srun --mpi=pmix -N1 -n1 true; echo ends with $?`)
		c.waitLog(t, job, "ends with ")
		const want = "PMI_JOBID=s0-1\nPMI_RANK=0\nPMI_SIZE=1\nUCX_TLS=tcp,self\n0\n" +
			"singularity: srun: --mpi=pmix does not work in a protected job: "
		if log := c.log(job); !strings.HasPrefix(log, want) || !strings.HasSuffix(log, "ends with 1") {
			t.Errorf("log:\n%s\nwant\n%s", log, want)
		}
	})
	t.Run("default", func(t *testing.T) { // of the site
		c.ctl(t, `sed -i 's/^MpiDefault=.*/MpiDefault=pmi2/' /etc/slurm/slurm.conf; scontrol reconfigure`)
		for _, n := range []string{"n1", "n2", "n3"} {
			mc(t, "restart", "--name", c.name, n, "proxyd").must(t)
		}
		job := c.submit(t, options, "srun ./ring 80; echo ends with $?")
		c.waitLog(t, job, "\n10 of 4: ")
		move(t, job)
		c.checkRounds(t, job)
	})
}

// checkQuiet checks that what serves a job's MPI does not even wake up while the job computes and communicates.
func (c protected) checkQuiet(t *testing.T, job string) {
	t.Helper()
	wakes := func() (all string) {
		for _, n := range []string{"n1", "n2"} {
			all += c.exec(t, n, "", "bash", "-c", fmt.Sprintf(`for p in $(pgrep "^sing-pmi"); do
				grep -qz "^SLURM_JOB_ID=%s$" /proc/$p/environ && echo $(cat /proc/$p/comm) $p $(grep ctxt /proc/$p/status); done; true`, job)).must(t)
		}
		return all
	}
	before := wakes()
	if strings.Count(before, "sing-pmi ") != 4 || strings.Count(before, "sing-pmi-hub ") != 1 {
		t.Errorf("4 servers and a hub serve the job:\n%s", before)
	}
	time.Sleep(2 * time.Second) // in which it makes some ten rounds
	if after := wakes(); after != before {
		t.Errorf("woken:\n%s\nbefore:\n%s", after, before)
	}
}

// checkRounds waits for the job's end: each round was printed once, and the last depends on all.
func (c protected) checkRounds(t *testing.T, job string) {
	t.Helper()
	c.waitLog(t, job, "ends with ")
	lines := strings.Split(c.log(job), "\n")
	if len(lines) != 81 || lines[79] != lastRound || lines[80] != "ends with 0" {
		t.Errorf("log:\n%s", strings.Join(lines, "\n"))
	}
}
