// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/config"
	"github.com/singularity-slurm/singularity-slurm/proxyd/manual/manualtest"
	relayconfig "github.com/singularity-slurm/singularity-slurm/proxyd/relay/config"
)

// TestManPage: the page has each key of the configuration and each command.
func TestManPage(t *testing.T) {
	root := newCommand()
	manualtest.CheckPage(t, root, manPage(root), append(config.Reference(), relayconfig.Reference()...))
}
