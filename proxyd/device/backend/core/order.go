// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package core

import "github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"

// OrderedNode is a node of a graph in an order that keeps all dependencies.
type OrderedNode struct {
	ID   backend.NodeID
	Node backend.Node
	Deps []int // positions in the order, each before the node's own
}

// OrderNodes lists the nodes of a graph in such an order.
func OrderNodes(g *backend.Graph) ([]OrderedNode, error) {
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	nodes := make([]OrderedNode, len(order))
	at := make(map[backend.NodeID]int, len(order))
	for i, id := range order {
		at[id] = i
		n, err := g.Node(id)
		if err != nil {
			return nil, err
		}
		deps, err := g.Deps(id)
		if err != nil {
			return nil, err
		}
		nodes[i] = OrderedNode{ID: id, Node: n}
		for _, d := range deps {
			nodes[i].Deps = append(nodes[i].Deps, at[d])
		}
	}
	return nodes, nil
}
