// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"

	"github.com/singularity-slurm/singularity-slurm/proxyd/landlock"
	"github.com/singularity-slurm/singularity-slurm/proxyd/syscalls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/tiles"
)

// prepareReaders loads the BPF programs that read what the kernel has of threads, and logs what is not seen without
// them. prepareReaders takes two seconds.
func prepareReaders(log *slog.Logger) {
	if err := syscalls.Prepare(); err != nil {
		log.Warn("checkpoints interrupt system calls with a timeout", "error", err)
	}
	if err := tiles.Prepare(); err != nil {
		log.Warn("programs that use AMX tiles are captured without the tiles", "error", err)
	}
	if _, err := landlock.Prepare(); err != nil {
		log.Warn("programs with no_new_privs are not captured, for they may have confined themselves by Landlock", "error", err)
	}
}
