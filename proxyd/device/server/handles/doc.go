// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package handles gives numbers to the objects of a process, and finds the objects by number; also again after a
// restore.
package handles
