// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"slices"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// slurmPMI returns the descriptor by which a task of srun --mpi=pmi2 talks to its slurmstepd,
// which is outside of the capsule; "" if the process has none. Every process of the task inherits
// the descriptor, whether it uses MPI or not.
func slurmPMI(pid int) string {
	b, err := procfs.Environ(pid)
	if err != nil {
		return ""
	}
	return pmiDescriptor(string(b))
}

// pmiVariables are the variables that pmiDescriptor looks at.
var pmiVariables = []string{"SLURM_JOB_ID", "PMI_JOBID", "PMI_FD"}

// pmiDescriptor finds the descriptor in an environment. mpiexec sets PMI_FD too, but only Slurm
// puts the job's number into PMI_JOBID.
func pmiDescriptor(environ string) string {
	env := map[string]string{} // of these alone: the user chooses how many variables there are
	for v := range strings.SplitSeq(environ, "\x00") {
		if key, value, _ := strings.Cut(v, "="); slices.Contains(pmiVariables, key) {
			env[key] = value
		}
	}
	if env["SLURM_JOB_ID"] == "" || !strings.HasPrefix(env["PMI_JOBID"], env["SLURM_JOB_ID"]+".") {
		return ""
	}
	return env["PMI_FD"]
}
