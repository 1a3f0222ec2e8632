// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package processes reads from /proc and the cgroups what the conductor must know of the processes of a capsule. It
// changes nothing and knows no jobs. A process may end at any moment: what is read of it is then empty.
//
//	obstacles.go    what in a process cannot be captured; terminals.go and pmi.go find two kinds
//	executables.go  the files of the system whose code the processes run
//	cgroups.go      the cgroup of a job, for its device servers
//	process.go      one process: its parent, groups, environment, memory
//	outside.go      TCP connections to outside of the job
//	pipes.go        waits until a pipe is empty
package processes
