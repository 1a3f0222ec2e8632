// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package runs

import (
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// ResumePoint is the checkpoint that a run is restored from.
type ResumePoint struct {
	ID     store.ID
	Reader *store.Reader
	Meta   *records.Meta

	LostWork  string // for the comment and the time line: the work of earlier runs after this checkpoint, or ""
	LostNewer string // for the comment: the newer checkpoint that is lost, or ""
}

// Close closes the checkpoint. p may be nil, or have no reader.
func (p *ResumePoint) Close() {
	if p != nil && p.Reader != nil {
		p.Reader.Close()
	}
}

// NodesWithPart returns the nodes of this run that have capsules of the checkpoint.
func (p *ResumePoint) NodesWithPart(where records.Placement) map[string]bool {
	nodes := map[string]bool{}
	for _, m := range p.Meta.Capsules {
		nodes[where.NodeOf(m.Index)] = true
	}
	return nodes
}
