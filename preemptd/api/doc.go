// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package api is the server's side of package rpc. For each request, the package finds out the user, and whether that
// user may make the request; then the request becomes an action in the journal, which the loop carries out like the
// actions of policies. The package changes no job itself.
//
//	request         allowed to
//	───────         ──────────
//	Act             the job's owner, operators
//	Show, Watch     the job's owner, the requester of the action, operators
//	History, Jobs   all users; actions and jobs of other users are left out
//	Status          all users; other users' actions are only counted
//	Snapshot, Try   operators
//	Token           all users; package web takes it for the caller's credential
//
// Operators are root, SlurmUser, the users that the configuration names, and users with Slurm's
// admin level Operator or Administrator, as sacctmgr says.
//
// # Requests that a user may not make
//
// Preemptd asks Slurm as an operator, and Slurm checks less for operators. So preemptd checks itself that owners do
// not get by preemptd a change that Slurm would refuse them: more nodes or GPUs than they had asked for at the
// submission, a QOS that they may not use, or the release of another user's hold.
package api
