//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "testing"

// TestMPINodes: programs of MPICH and Open MPI that srun starts on eight nodes are captured in place, and go on on other nodes.
// The last line of each depends on all rounds of all ranks: a program that computes the ranks in turn, without MPI, gives these
// two.
func TestMPINodes(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-mpi-nodes", "--nodes", "9", "--with-corpus")
	c.putFile(t, "mpi_ring.c")
	c.putFile(t, "mpi_ring.py")
	c.runScript(t, "cd; mpicc.mpich -O2 -o ring mpi_ring.c")
	for kind, test := range map[string]struct{ command, last string }{
		"pmi2": {"./ring 80", "80 of 8: ba5875fb205e7600"},
		"pmix": {"python3 mpi_ring.py 80", "80 of 8: a46391e8286947aa"},
	} {
		t.Run(kind, func(t *testing.T) {
			job := c.submitJob(t, "--singularity -N8 -n8 -w n[1-8]", "srun --mpi="+kind+" "+test.command+"; echo ends with $?")
			c.waitLog(t, job, "\n10 of 8: ")
			c.checkCommand(t, "alice", "singctl checkpoint "+job, 0)
			c.waitLog(t, job, "\n20 of 8: ")
			c.moveJob(t, job)
			c.checkRounds(t, job, test.last)
		})
	}
}
