// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package runs has the state of the present run of a job, as a node knows it. Package checkpoint receives the events,
// and acts.
//
//	state.go         the states of a run, and which may follow which
//	resume_point.go  the checkpoint from which a run is restored
//	termination.go   the programs that wait for the decision about a SIGTERM of Slurm
package runs
