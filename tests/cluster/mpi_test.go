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
	waitFor(t, 3*time.Minute, func() (bool, string) {
		log := c.jobLog(job)
		return strings.Contains(log, text), fmt.Sprintf("job %s: no %q in:\n%s", job, text, log)
	})
}

// moveJob requeues an MPI job of n1, which goes on elsewhere.
func (c protected) moveJob(t *testing.T, job string) {
	c.runAsRoot(t, "scontrol requeue "+job)
	c.runAsRoot(t, "scontrol update ReqNodeList= JobId="+job)
	c.restartJob(t, job, "n1")
}

// setMPIDefault changes the site's MpiDefault.
func (c protected) setMPIDefault(t *testing.T, kind string) {
	c.runAsRoot(t, fmt.Sprintf(`sed -i 's/^MpiDefault=.*/MpiDefault=%s/' /etc/slurm/slurm.conf; scontrol reconfigure`, kind))
	for _, n := range []string{"n1", "n2", "n3"} {
		runMinicluster(t, "restart", "--name", c.name, n, "proxyd").mustSucceed(t)
	}
}

// mpiOptions are sbatch's, for two tasks on each of two nodes.
const mpiOptions = "--singularity -N2 -n4 --overcommit -w n1,n2"

// putFile copies a file of testdata to alice's home.
func (c protected) putFile(t *testing.T, name string) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.homePath(name), b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestMPI: MPI programs that srun starts with PMI-2 are captured and restored like any other step.
func TestMPI(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-mpi", "--nodes", "3", "--with-corpus")
	c.putFile(t, "mpi_ring.c")
	c.runScript(t, "cd; mpicc.mpich -O2 -o ring mpi_ring.c")
	t.Run("moved", func(t *testing.T) { // captured in place, requeued, and requeued again
		job := c.submitJob(t, mpiOptions, "srun --mpi=pmi2 ./ring 80; echo ends with $?")
		c.waitLog(t, job, "\n10 of 4: ")
		c.checkCommand(t, "alice", "singctl checkpoint "+job, 0)
		c.checkQuiet(t, job, "sing-pmi")
		c.moveJob(t, job)
		c.waitLog(t, job, "\n40 of 4: ")
		c.moveJob(t, job)
		c.checkRounds(t, job, lastRound)
	})
	t.Run("starting", func(t *testing.T) { // a single task is in MPI_Init, and waits for the other
		job := c.submitJob(t, mpiOptions, `srun --mpi=pmi2 -n2 -N2 bash -c '[ $SLURM_PROCID = 0 ] || until [ -e ~/go ]; do sleep 0.2; done; exec ./ring 5'; echo ends with $?`)
		waitFor(t, 3*time.Minute, func() (bool, string) {
			out := c.runOn(t, "n1", "", "bash", "-c", "cat /proc/$(pgrep -x ring)/wchan").out
			return strings.Contains(out, "unix_stream"), "rank 0 is not in a fence: " + out
		})
		c.moveJob(t, job)
		c.runScript(t, "touch ~/go")
		c.waitLog(t, job, "ends with 0")
		if log := c.jobLog(job); !strings.HasPrefix(log, "1 of 2: ") || !strings.Contains(log, "\n5 of 2: ") {
			t.Errorf("the job's log is not as expected:\n%s", log)
		}
	})
	t.Run("aborted", func(t *testing.T) {
		job := c.submitJob(t, mpiOptions, "srun --mpi=pmi2 ./ring 80 abort; echo ends with $?")
		c.waitLog(t, job, "ends with ")
		if log := c.jobLog(job); !strings.Contains(log, "application called MPI_Abort") || strings.Contains(log, "ends with 0") {
			t.Errorf("the job's log is not as expected:\n%s", log)
		}
	})
	t.Run("environment", func(t *testing.T) {
		job := c.submitJob(t, mpiOptions, `srun --mpi=pmi2 --export=NONE -N1 -n1 /usr/bin/env | grep -E "^(PMI_[JRS]|UCX_|SINGULARITY_SLURM_(PMI|STEP))" | sort
			srun --mpi=none -N1 -n1 env | grep -c ^PMI_; echo done`)
		const want = "PMI_JOBID=s0-1\nPMI_RANK=0\nPMI_SIZE=1\nUCX_TLS=tcp,self\nUCX_VFS_ENABLE=n\n0\ndone"
		c.waitLog(t, job, "\ndone")
		if log := c.jobLog(job); log != want {
			t.Errorf("log:\n%s\nwant\n%s", log, want)
		}
	})
	t.Run("default", func(t *testing.T) { // of the site
		c.setMPIDefault(t, "pmi2")
		job := c.submitJob(t, mpiOptions, "srun ./ring 80; echo ends with $?")
		c.waitLog(t, job, "\n10 of 4: ")
		c.moveJob(t, job)
		c.checkRounds(t, job, lastRound)
	})
}

// lastRoundPython is the last line of testdata/mpi_ring.py with 4 ranks and 80 rounds.
const lastRoundPython = "80 of 4: aabd84a31c9f3e91"

// TestPMIx: programs of Open MPI that srun starts with PMIx are captured and restored, by a Slurm without PMIx.
func TestPMIx(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-pmix", "--nodes", "3", "--with-corpus")
	c.putFile(t, "mpi_ring.py")
	c.putFile(t, "mpi_session.py")
	c.putFile(t, "pmix_shares.py")
	t.Run("shared CPUs", func(t *testing.T) { // where MPI libraries are to give the CPU away while they wait
		job := c.submitJob(t, mpiOptions, "srun --mpi=pmix -n2 -N2 python3 pmix_shares.py; srun --mpi=pmix -n4 -N2 python3 pmix_shares.py; echo done")
		c.waitLog(t, job, "done")
		if got, want := c.jobLog(job), strings.Repeat("own\n", 2)+strings.Repeat("shared\n", 4)+"done"; got != want {
			t.Errorf("log:\n%s\nwant\n%s", got, want)
		}
	})
	t.Run("moved", func(t *testing.T) {
		job := c.submitJob(t, mpiOptions, "srun --mpi=pmix python3 mpi_ring.py 80; echo ends with $?")
		c.waitLog(t, job, "\n10 of 4: ")
		c.checkCommand(t, "alice", "singctl checkpoint "+job, 0)
		c.checkQuiet(t, job, "sing-pmix")
		c.moveJob(t, job)
		c.waitLog(t, job, "\n40 of 4: ")
		c.moveJob(t, job)
		c.checkRounds(t, job, lastRoundPython)
	})
	t.Run("starting", func(t *testing.T) {
		job := c.submitJob(t, mpiOptions, `srun --mpi=pmix -n2 -N2 bash -c '[ $SLURM_PROCID = 0 ] || until [ -e ~/go ]; do sleep 0.2; done; exec python3 mpi_ring.py 5'; echo ends with $?`)
		waitFor(t, 3*time.Minute, func() (bool, string) { // a client has connected to its server, beside the server's connection to the hub
			out := c.runOn(t, "n1", "", "bash", "-c", `ls -l /proc/$(pgrep -x sing-pmix)/fd | grep -c socket:`).out
			return strings.TrimSpace(out) == "3", "rank 0 is not in MPI_Init: " + out
		})
		c.moveJob(t, job)
		c.runScript(t, "touch ~/go")
		c.waitLog(t, job, "ends with 0")
		if log := c.jobLog(job); !strings.HasPrefix(log, "1 of 2: ") || !strings.Contains(log, "\n5 of 2: ") {
			t.Errorf("the job's log is not as expected:\n%s", log)
		}
	})
	t.Run("aborted", func(t *testing.T) {
		job := c.submitJob(t, mpiOptions, "srun --mpi=pmix python3 mpi_ring.py 80 abort; echo ends with $?")
		c.waitLog(t, job, "ends with ")
		if log := c.jobLog(job); !strings.Contains(log, "\n3 of 4: ") || strings.Contains(log, "\n8 of 4: ") || strings.Contains(log, "ends with 0") {
			t.Errorf("the job's log is not as expected:\n%s", log)
		}
	})
	t.Run("environment", func(t *testing.T) {
		job := c.submitJob(t, mpiOptions, `srun --mpi=pmix --export=NONE -N1 -n1 /usr/bin/env | grep -E "^(PMIX_(NAMESPACE|RANK|SEC|GDS)|UCX_|OMPI_MCA_osc|SINGULARITY_SLURM_(PMI|STEP))" | sort
			srun --mpi=none -N1 -n1 env | grep -c ^PMIX_; echo done`)
		c.waitLog(t, job, "\ndone")
		const want = "OMPI_MCA_osc=^sm\nPMIX_GDS_MODULE=hash\nPMIX_NAMESPACE=s0-1\nPMIX_RANK=0\nPMIX_SECURITY_MODE=native\nUCX_TLS=tcp,self\nUCX_VFS_ENABLE=n\n0\ndone"
		if log := c.jobLog(job); log != want {
			t.Errorf("log:\n%s\nwant\n%s", log, want)
		}
	})
	t.Run("asked again", func(t *testing.T) { // the servers are asked for more after a restore
		c.runScript(t, "rm -f ~/go")
		job := c.submitJob(t, mpiOptions, "srun --mpi=pmix python3 mpi_session.py; echo ends with $?")
		c.waitLog(t, job, "published")
		c.moveJob(t, job)
		c.runScript(t, "touch ~/go")
		c.waitLog(t, job, "ends with ")
		const want = "published\n('port', 4, 4, 2, 0)\n('port', 4, 4, 2, 1)\n('port', 4, 4, 2, 0)\n('port', 4, 4, 2, 1)\nends with 0"
		if log := c.jobLog(job); log != want {
			t.Errorf("log:\n%s\nwant\n%s", log, want)
		}
	})
	t.Run("no library", func(t *testing.T) { // here, and then on the other node
		job := c.submitJob(t, mpiOptions, `export SINGULARITY_SLURM_LIBPMIX=/nowhere/libpmix.so
			srun --mpi=pmix -N1 -n1 true; echo ends with $?; srun -n1 -N1 echo no MPI; echo done`)
		c.waitLog(t, job, "\ndone")
		for _, want := range []string{
			"singularity: srun --mpi=pmix needs PMIx's library: /nowhere/libpmix.so: cannot open",
			"singularity: srun: --mpi=pmix cannot be served in this job: ", "\nends with 1\n", "\nno MPI\n",
		} {
			if log := c.jobLog(job); strings.Count(log, want) != 1 {
				t.Errorf("%q is not in the log once:\n%s", want, log)
			}
		}
	})
	t.Run("no library on the other node", func(t *testing.T) {
		c.runOn(t, "n2", "", "bash", "-c", "mkdir /root/pmix; mv /usr/lib/x86_64-linux-gnu/libpmix.so.2* /root/pmix").mustSucceed(t)
		job := c.submitJob(t, mpiOptions, "srun --mpi=pmix python3 mpi_ring.py 80; echo ends with $?")
		c.waitLog(t, job, "ends with ")
		c.runOn(t, "n2", "", "bash", "-c", "mv /root/pmix/* /usr/lib/x86_64-linux-gnu/").mustSucceed(t)
		if log := c.jobLog(job); !strings.Contains(log, "singularity: srun --mpi=pmix needs PMIx's library: libpmix.so.2: cannot open") ||
			strings.Contains(log, " of ") || strings.Contains(log, "ends with 0") {
			t.Errorf("the job's log is not as expected:\n%s", log)
		}
	})
	t.Run("default", func(t *testing.T) { // of the site, for a program of MPI and another
		c.setMPIDefault(t, "pmix")
		job := c.submitJob(t, mpiOptions, "srun -n1 -N1 echo no MPI; srun python3 mpi_ring.py 80; echo ends with $?")
		c.waitLog(t, job, "\n10 of 4: ")
		c.moveJob(t, job)
		c.waitLog(t, job, "ends with 0")
		if log := c.jobLog(job); !strings.HasPrefix(log, "no MPI\n1 of 4: ") || !strings.Contains(log, "\n"+lastRoundPython+"\n") {
			t.Errorf("the job's log is not as expected:\n%s", log)
		}
	})
}

// checkQuiet checks that the servers of a job's MPI do not even wake up while the job computes and communicates.
func (c protected) checkQuiet(t *testing.T, job, server string) {
	t.Helper()
	wakes := func() (all string) {
		for _, n := range []string{"n1", "n2"} {
			all += c.runOn(t, n, "", "bash", "-c", fmt.Sprintf(`for p in $(pgrep "^sing-pmi"); do
				grep -qz "^SLURM_JOB_ID=%s$" /proc/$p/environ && echo $(cat /proc/$p/comm) $p $(cat /proc/$p/task/*/status | grep ctxt); done; true`, job)).mustSucceed(t)
		}
		return all
	}
	before := wakes()
	if strings.Count(before, server+" ") != 4 || strings.Count(before, "sing-pmi-hub ") != 1 {
		t.Errorf("4 servers and a hub serve the job:\n%s", before)
	}
	rounds := strings.Count(c.jobLog(job), "\n")
	waitFor(t, 3*time.Minute, func() (bool, string) {
		n := strings.Count(c.jobLog(job), "\n")
		return n >= rounds+10, fmt.Sprintf("%d rounds of 10 in %s", n-rounds, c.jobLog(job))
	})
	if after := wakes(); after != before {
		t.Errorf("woken:\n%s\nbefore:\n%s", after, before)
	}
}

// checkRounds waits for the job's end: each round was printed once, and the last depends on all.
func (c protected) checkRounds(t *testing.T, job, last string) {
	t.Helper()
	c.waitLog(t, job, "ends with ")
	lines := strings.Split(c.jobLog(job), "\n")
	if len(lines) != 81 || lines[79] != last || lines[80] != "ends with 0" {
		t.Errorf("the job's log is not as expected:\n%s", strings.Join(lines, "\n"))
	}
}
