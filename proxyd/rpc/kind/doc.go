// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package kind carries errors over gRPC so that errors.Is gives the same answer on both sides. The contracts
// of proxyd and of preemptd share the package. Each adds a table of its kinds and a message of its own, the
// Problem, which travels in the details of a status. What both ask of a reason is here, too.
package kind
