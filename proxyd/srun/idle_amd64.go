// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import "golang.org/x/sys/unix"

// isPoll tells whether a system call waits for an array of struct pollfd.
func isPoll(nr int) bool { return nr == unix.SYS_POLL || nr == unix.SYS_PPOLL }
