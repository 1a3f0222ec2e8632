// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package upload

import (
	"testing"

	"github.com/singularity-slurm/singularity-slurm/tests/tempdir"
)

func TestMain(m *testing.M) { tempdir.Main(m) }
