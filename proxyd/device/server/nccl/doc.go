// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package nccl carries out NCCL's calls: a process's members of communicators, what they issue, and what a save and a cut must know of them.
//
//	Collectives   of a server: its network, its communicators; made again by Reconnect (reconnect.go)
//	Calls         of a process
//	└─ Member     a rank of a communicator: what a handle stands for
//	   └─ part    what a group does in a communicator; visit is what a group does on a stream
//
// Package collective carries the bytes; where devices can, a team of the backend's does (team.go).
package nccl
