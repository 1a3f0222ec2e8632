// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"errors"
	"slices"
	"strings"
)

// MPI programs are started by srun with a server that tells the tasks of each other (PMI). Slurm's own server is in
// slurmstepd, outside of the capsules, and a connection to that server cannot be captured. For PMI-2 and PMIx there are
// servers of ours within the capsules (slurm-spank/pmi, slurm-spank/pmix): the tasks' wardens start their parts, and
// the real srun runs with --mpi=none.

// PMIVariable and PMIxVariable are the environment variables by which the wardens of a step learn
// where its hub is, and which server to start. sing-srun sets them in the calls that may need it;
// PMIxVariable only where sing-srun can load PMIx's library.
const (
	PMIVariable  = "SINGULARITY_SLURM_PMI"
	PMIxVariable = "SINGULARITY_SLURM_PMIX"
)

// MPIDefaultVariable tells sing-srun that steps use PMI without being asked to. It is set in the capsules of a site
// with such an MPI as MpiDefault.
const MPIDefaultVariable = "SINGULARITY_SLURM_MPI_DEFAULT"

// mpiTypeVariable is srun's variable for --mpi.
const mpiTypeVariable = "SLURM_MPI_TYPE"

// ErrPMIx is returned for a call that asks for PMIx where no server of ours can serve it within the capsules:
// the server of slurmstepd listens in the node's network, which tasks in a capsule cannot reach.
var ErrPMIx = errors.New("--mpi=pmix cannot be served in this job: it needs PMIx's library on the nodes, " +
	"and a job that began under this release. Start MPI programs with mpirun in the script, " +
	"or programs of MPICH with srun --mpi=pmi2; or submit the job without --singularity")

// ErrContainer is returned for a call that asks for PMIx in a container: sing-pmix and the library are
// files of the node, which the container's root does not have.
var ErrContainer = errors.New("--mpi=pmix does not work in a container of a protected job: " +
	"programs of MPICH can be started with srun --mpi=pmi2")

// containerOptions are the options of srun and of pyxis with which tasks run in a container, and containerVariables the
// variables for them.
var (
	containerOptions   = []string{"container", "container-image", "container-name"}
	containerVariables = []string{"SLURM_CONTAINER", "PYXIS_CONTAINER_IMAGE", "PYXIS_CONTAINER_NAME"}
)

// inContainer tells whether a component of a call runs in a container.
func inContainer(opts []givenOption, env []string) bool {
	return slices.ContainsFunc(opts, func(g givenOption) bool { return slices.Contains(containerOptions, canonicalName(g.option)) }) ||
		slices.ContainsFunc(env, func(kv string) bool {
			name, _, _ := strings.Cut(kv, "=")
			return slices.Contains(containerVariables, name)
		})
}

// variableOf returns the variable of the server that serves a kind of MPI within capsules, "" if there is no such
// server.
func variableOf(kind string) string {
	switch {
	case kind == "pmi2":
		return PMIVariable
	case asksForPMIx(kind):
		return PMIxVariable
	}
	return ""
}

// asksForPMIx tells whether a kind of MPI is PMIx: "pmix", or "pmix_v5" where a site has several.
func asksForPMIx(kind string) bool { return strings.HasPrefix(kind, "pmix") }

// ServesMPI tells whether a value of --mpi and MpiDefault can be served within capsules.
func ServesMPI(kind string) bool { return variableOf(kind) != "" }

// mpiType returns which MPI a component of a call asks for, as srun finds it: the last option, else the variable.
// explicit is false if kind is only the site's default.
func (w *rewriter) mpiType(opts []givenOption, env []string) (kind string, explicit bool) {
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

// chooseMPI chooses the server of the tasks of a call within the capsules. All components of a call get the same
// server: they are one step to the hub.
func (w *rewriter) chooseMPI(parts []component, env []string) error {
	for _, part := range parts {
		kind, explicit := w.mpiType(part.opts, env)
		variable := variableOf(kind)
		offered := variable != "" && slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, variable+"=") })
		switch {
		case asksForHelp(part.opts):
		case asksForPMIx(kind) && inContainer(part.opts, env):
			if explicit {
				return ErrContainer
			}
		case offered:
			w.served = variable
		case explicit && asksForPMIx(kind):
			return ErrPMIx
		}
	}
	return nil
}

// withoutMPI replaces the MPI options of a component by --mpi=none, if it is served within the capsules.
func (w *rewriter) withoutMPI(opts []givenOption, env []string) []givenOption {
	kind, _ := w.mpiType(opts, env)
	if w.served == "" || variableOf(kind) != w.served || asksForPMIx(kind) && inContainer(opts, env) {
		return opts
	}
	opts = slices.DeleteFunc(opts, func(g givenOption) bool { return canonicalName(g.option) == "mpi" })
	return append([]givenOption{w.newOption("mpi", "none")}, opts...)
}

// exportedNames are the variables that a step's tasks need, also if the user exports only others.
func (w *rewriter) exportedNames() string {
	names := KeyVariable
	if w.served != "" {
		names += "," + w.served
	}
	if w.onTerminal {
		names += "," + TerminalVariable
	}
	return names
}
