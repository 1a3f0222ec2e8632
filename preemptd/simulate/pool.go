// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"slices"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// pool is the GPUs of all nodes. Nodes are kept by how many they have free, so that a place is
// found without a look at every node.
type pool struct {
	per    int // GPUs of a node
	free   []sdk.GPUSet
	byFree [][]int32 // nodes, by how many GPUs they have free
	at     []int32   // where a node is in its list
	total  int       // free GPUs
}

func newPool(nodes, per int) *pool {
	p := &pool{per: per, free: make([]sdk.GPUSet, nodes), byFree: make([][]int32, per+1), at: make([]int32, nodes)}
	for n := range p.free {
		p.byFree[0] = append(p.byFree[0], int32(n))
		p.at[n] = int32(n)
	}
	for n := nodes - 1; n >= 0; n-- {
		p.setFree(int32(n), sdk.GPUSet(1)<<per-1)
	}
	return p
}

// setFree changes the free GPUs of a node.
func (p *pool) setFree(node int32, free sdk.GPUSet) {
	was, is := p.free[node].Count(), free.Count()
	p.free[node] = free
	p.total += is - was
	if was == is {
		return
	}
	list := p.byFree[was]
	last := list[len(list)-1]
	list[p.at[node]], p.at[last] = last, p.at[node]
	p.byFree[was] = list[:len(list)-1]
	p.at[node] = int32(len(p.byFree[is]))
	p.byFree[is] = append(p.byFree[is], node)
}

// allocateNodes gives out a place of so many GPUs on each of some nodes, the fullest that will do; nil if there is no
// such place.
func (p *pool) allocateNodes(nodes, each int) []sdk.Share {
	if each > p.per || nodes*each > p.total {
		return nil
	}
	var chosen []int32
	for free := each; free <= p.per && len(chosen) < nodes; free++ {
		list := p.byFree[free]
		for i := len(list) - 1; i >= 0 && len(chosen) < nodes; i-- {
			chosen = append(chosen, list[i])
		}
	}
	if len(chosen) < nodes {
		return nil
	}
	slices.Sort(chosen)
	shares := make([]sdk.Share, nodes)
	for i, n := range chosen {
		shares[i] = sdk.Share{Node: n, Capsules: 1}
		shares[i].GPUs = p.allocateGPUs(n, each)
	}
	return shares
}

// allocateGPUs takes GPUs of a node: as many as asked for, or all that are free.
func (p *pool) allocateGPUs(node int32, gpus int) sdk.GPUSet {
	set := p.free[node].First(gpus)
	p.setFree(node, p.free[node]&^set)
	return set
}

// releaseShares takes a place back.
func (p *pool) releaseShares(shares []sdk.Share) {
	for _, s := range shares {
		p.setFree(s.Node, p.free[s.Node]|s.GPUs)
	}
}
