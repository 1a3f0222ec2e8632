// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build !cgo

package cuda

import "github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"

// Built tells whether this program can open a driver.
const Built = false

// NCCL fails with ErrNoCgo.
func NCCL() (string, error) { return "", ErrNoCgo }

// Open fails with ErrNoCgo.
func Open(Config) (backend.Backend, error) { return nil, ErrNoCgo }
