// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package nccl carries out NCCL's calls: a process's members of communicators, the operations that they issue, and
// their state for a save and a cut.
//
//	Collectives   of a server: its network, its communicators; made again by Reconnect (reconnect.go)
//	Calls         of a process
//	└─ Member     a rank of a communicator: a handle stands for a Member
//	   └─ part    the operations of a group in a communicator; visit: those on a stream
//
// Package collective carries the bytes; where devices can, a team of the backend's does (team.go).
package nccl
