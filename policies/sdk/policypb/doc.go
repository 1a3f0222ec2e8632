// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package policypb is the wire form of package sdk: the messages between preemptd and its policies, made from
// policy.proto.
package policypb

//go:generate ./generate
