// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package sdk is the contract between preemptd and its policies. A policy is a process of its
// own: it is given a Snapshot of the cluster and answers with Intents, each with its reason.
// preemptd tries the intents on the snapshot, rejects those that break an invariant, and carries out the rest; the
// next snapshot shows the result.
//
//	main ── sdk.Serve(policy) ◄── unix socket, gRPC ── preemptd/policy ── preemptd/plan
//
// A policy in Go implements Policy and calls Serve; a policy in another language implements
// policypb/policy.proto. Package sdktest tries either.
//
// This package imports no other package of this repository, except policypb.
package sdk
