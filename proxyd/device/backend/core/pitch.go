// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/ledger"
)

// choosePitch returns the distance between rows for backend.Context's AllocPitch, or an error if the rows cannot be
// allocated in a space of so many bytes.
func choosePitch(width, height uint64, element uint32, memory uint64) (uint64, error) {
	if width == 0 || height == 0 || element != 4 && element != 8 && element != 16 || width > 1<<40 || height > 1<<40 {
		return 0, fmt.Errorf("allocate %d rows of %d bytes, elements of %d: %w", height, width, element, backend.InvalidValue)
	}
	pitch := ledger.RoundUp(width, ledger.Quantum)
	if pitch > memory/height {
		return 0, fmt.Errorf("allocate %d rows of %d bytes: %w", height, pitch, backend.OutOfMemory)
	}
	return pitch, nil
}
