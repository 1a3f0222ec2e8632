// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package policypb is the wire form of package sdk: what preemptd and its policies send
// each other, made from policy.proto.
package policypb

//go:generate ./generate
