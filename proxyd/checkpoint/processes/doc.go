// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package processes reads facts about the processes of a capsule from /proc and the cgroups, for the conductor. The
// package changes no process and knows no jobs. A process may end at any moment: then it is left out.
//
//	obstacles.go    parts of a process that cannot be captured; terminals.go and pmi.go find two kinds
//	executables.go  the system files with the code that the processes run
//	cgroups.go      the cgroup of a job, for its device servers
//	process.go      a process: its parent, groups, environment, memory
//	outside.go      TCP connections to outside of the job; outside_unix.go those by unix sockets
//	bound_sockets.go  the files of unix sockets; moved_sockets.go their present names
//	pipes.go        waits until a pipe is empty
package processes
