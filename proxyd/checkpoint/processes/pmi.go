// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"fmt"
	"os"
	"strings"
)

// slurmPMI returns the descriptor by which a task of srun --mpi=pmi2 talks to its slurmstepd,
// which is outside of the capsule; "" if the process has none. Every process of the task inherits
// the descriptor, whether it uses MPI or not.
func slurmPMI(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return ""
	}
	return pmiDescriptor(string(b))
}

// pmiDescriptor finds the descriptor in an environment. mpiexec sets PMI_FD too, but only Slurm
// puts the job's number into PMI_JOBID.
func pmiDescriptor(environ string) string {
	env := map[string]string{}
	for v := range strings.SplitSeq(environ, "\x00") {
		key, value, _ := strings.Cut(v, "=")
		env[key] = value
	}
	if env["SLURM_JOB_ID"] == "" || !strings.HasPrefix(env["PMI_JOBID"], env["SLURM_JOB_ID"]+".") {
		return ""
	}
	return env["PMI_FD"]
}
