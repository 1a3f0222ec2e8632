// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package handles gives numbers to what a process has made, and finds it by them; also again after a restore.
package handles
