// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"

	"github.com/singularity-slurm/singularity-slurm/proxyd/host"
	"github.com/singularity-slurm/singularity-slurm/proxyd/overlay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// examineNode looks at this node for singctl doctor; with measure it also measures the rate of writing.
func (n *node) examineNode(ctx context.Context, measure bool) []host.Finding {
	self, err := os.Executable()
	if err != nil {
		n.log.Warn("doctor does not know its own program", "error", err)
	}
	return host.Probe(ctx, n.cfg, host.LearntFacts{
		Libexec: libexec, Program: self, Capture: n.conductor.LongestCapture(), Measure: measure,
		KeyInUse: n.keyPrint, ReadKey: n.readKeyPrint, LoadConfig: n.loadConfig, SharedID: n.shared.Mark().ID, SharedCluster: n.shared.Mark().Cluster,
		CheckShared: func() error { return n.watch.CheckNow(ctx, n.checkShared) },
		CheckDivert: overlay.CheckDivert, AskRelay: n.askRelay, Interpreted: softgpu.CheckMachineCode(),
	})
}

// readKeyPrint returns the fingerprint of the key that is in the key's file now.
func (n *node) readKeyPrint() (string, error) {
	key, err := store.KeyFile(n.cfg.KeyFile)
	return key.Fingerprint(), err
}
