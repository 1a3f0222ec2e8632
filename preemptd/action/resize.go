// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package action

import "errors"

// resize gives a job more or fewer nodes or GPUs. The number of its tasks does not change.
var resize = kind{
	past: "resized", takes: []string{"nodes", "avoid", "node count", "gpus"},
	check: func(a Args) error {
		if a.NodeCount == 0 && a.GPUs == 0 && len(a.Nodes) == 0 {
			return errors.New("say how many nodes, or how many GPUs on each")
		}
		if a.NodeCount != 0 && len(a.Nodes) > 0 && a.NodeCount != int64(len(a.Nodes)) {
			return errors.New("the number of nodes and the nodes that are named disagree")
		}
		return nil
	},
	target: placeAndSize,
	steps:  func(Args) []step { return movingSteps },
}
