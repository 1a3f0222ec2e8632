// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// resumePoint is the checkpoint that a run is restored from.
type resumePoint struct {
	id     store.ID
	reader *store.Reader
	meta   *records.Meta

	lostWork  string // for the comment and the time line: what the earlier runs had done after it, or ""
	lostNewer string // for the comment: the newer checkpoint that is lost, or ""
}

func (p *resumePoint) close() {
	if p != nil && p.reader != nil {
		p.reader.Close()
	}
}

// nodesToday returns the nodes of this run that have capsules of the checkpoint.
func (p *resumePoint) nodesToday(where records.Placement) map[string]bool {
	nodes := map[string]bool{}
	for _, m := range p.meta.Capsules {
		nodes[where.NodeOf(m.Index)] = true
	}
	return nodes
}
