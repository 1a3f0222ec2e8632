// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"errors"
	"slices"
	"strings"
)

// MPI programs are started by srun with a server that tells the tasks of each other (PMI). Slurm's
// own is in slurmstepd, outside of the capsules, and a connection to it cannot be captured. For PMI-2
// there is one of ours within the capsules (slurm-spank/pmi): the tasks' wardens start its parts, and
// the real srun runs with --mpi=none.

// PMIVariable is the environment variable by which the wardens of a step learn where its hub is.
// sing-srun sets it in the calls that may need it.
const PMIVariable = "SINGULARITY_SLURM_PMI"

// MPIDefaultVariable tells sing-srun that steps use PMI-2 without being asked to. It is set in
// capsules where that is Slurm's MpiDefault.
const MPIDefaultVariable = "SINGULARITY_SLURM_MPI_DEFAULT"

// MPIPMI2 is the value of --mpi and of MpiDefault that is served within capsules.
const MPIPMI2 = "pmi2"

// mpiTypeVariable is srun's variable for --mpi.
const mpiTypeVariable = "SLURM_MPI_TYPE"

// ErrPMIx is returned for a call that asks for PMIx: the server of slurmstepd listens in the node's
// network, where tasks in a capsule cannot reach it.
var ErrPMIx = errors.New("--mpi=pmix does not work in a protected job: " +
	"its server is outside of the job. Start MPI programs with mpirun in the script, " +
	"or programs of MPICH with srun --mpi=pmi2; or submit the job without --singularity")

// mpiType returns which MPI a component of a call asks for, as srun finds it: the last option, else
// the variable. explicit is false where only the site's default says so.
func (w *rewriter) mpiType(opts []given, env []string) (kind string, explicit bool) {
	for _, g := range slices.Backward(opts) {
		if canonicalName(g.option) == "mpi" {
			return g.value, true
		}
	}
	for _, kv := range env {
		if name, value, _ := strings.Cut(kv, "="); name == mpiTypeVariable && value != "" {
			return value, true
		}
	}
	return w.MPIDefault, false
}

// chooseMPI decides whether the tasks of a call are served within the capsules.
func (w *rewriter) chooseMPI(parts []component, env []string) error {
	offered := slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, PMIVariable+"=") })
	for _, part := range parts {
		kind, explicit := w.mpiType(part.opts, env)
		switch {
		case asksForHelp(part.opts):
		case kind == MPIPMI2 && offered:
			w.servesPMI = true
		case explicit && strings.HasPrefix(kind, "pmix"):
			return ErrPMIx
		}
	}
	return nil
}

// withoutMPI replaces what a component says about MPI by --mpi=none, if it asks for PMI-2.
func (w *rewriter) withoutMPI(opts []given, env []string) []given {
	if kind, _ := w.mpiType(opts, env); !w.servesPMI || kind != MPIPMI2 {
		return opts
	}
	opts = slices.DeleteFunc(opts, func(g given) bool { return canonicalName(g.option) == "mpi" })
	return append([]given{w.newOption("mpi", "none")}, opts...)
}

// exportedNames are the variables that a step's tasks need whatever the user exports.
func (w *rewriter) exportedNames() string {
	if w.servesPMI {
		return KeyVariable + "," + PMIVariable
	}
	return KeyVariable
}
