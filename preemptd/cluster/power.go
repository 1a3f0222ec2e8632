// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "github.com/singularity-slurm/singularity-slurm/policies/sdk"

// Power is how much all GPUs may draw together, and how much each of them is taken to draw, in watts.
type Power struct {
	Cap        float64 // 0: no cap
	Busy, Idle float64
}

// addPower estimates the power of each node, for a site that has a cap: a GPU that a job holds works, any other GPU
// idles, and a node that is down draws no power.
func (b *builder) addPower() {
	p := b.known.Power
	if p.Cap <= 0 {
		return
	}
	b.Power.Caps = []sdk.Cap{{Name: "power.cap", Watts: p.Cap}}
	for i := range b.Nodes {
		n := &b.Nodes[i]
		if n.State == sdk.NodeDown {
			continue
		}
		for g := range n.GPUs {
			watts := p.Idle
			if b.usedGPUs[i]>>g&1 == 1 {
				watts = p.Busy
			}
			n.GPUs[g].Watts, n.GPUs[g].Limit = float32(watts), float32(p.Busy)
			n.Watts += watts
		}
	}
}
