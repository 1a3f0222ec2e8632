// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/backendtest"
)

func TestBackend(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) backend.Backend {
		b, err := New(Config{Memory: []uint64{80 << 30, 256 << 20}, Seed: "test"})
		if err != nil {
			t.Fatal(err)
		}
		return b
	})
}
