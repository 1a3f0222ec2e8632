// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package api is the server's side of package rpc: who asks, may they, and then the request
// becomes an action in the journal, which the loop carries out like those of policies. It
// does nothing to jobs itself.
//
//	request         who may
//	───────         ───────
//	Act             the job's owner, operators
//	Show, Watch     the job's owner, who asked for the action, operators
//	History, Jobs   everybody; what belongs to others is left out
//	Status          everybody; others' actions are only counted
//	Snapshot, Try   operators
//	Token           everybody; package web takes it for the caller's credential
//
// Operators are root, SlurmUser, whom the configuration names, and who has Slurm's admin level
// Operator or Administrator, as sacctmgr says.
//
// # What a user may not
//
// Preemptd asks Slurm as an operator, for whom Slurm checks less. So it checks itself that
// an owner does not get by it what Slurm would refuse him: more nodes or GPUs than he had
// asked for when he submitted, a QOS that he may not use, or the release of a hold that is
// not his own.
package api
