// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package storetest_test

import (
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/storetest"
)

func TestMem(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Backend { return storetest.NewMem() })
}

func TestFaultPassesOn(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Backend {
		return storetest.NewFault(storetest.NewMem(), 0, storetest.Before)
	})
}
