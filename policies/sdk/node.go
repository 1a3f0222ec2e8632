// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"fmt"
	"math/bits"
	"time"
)

// Node is a node of the cluster.
type Node struct {
	Name       string
	State      NodeState
	Reason     string    // why the node is drained or down
	Since      time.Time // of that reason
	Partitions []string
	Features   []string
	CPUs       int   // that Slurm gives out
	Memory     int64 // MiB that Slurm gives out
	Watts      float64
	GPUs       []GPU // at most MaxGPUs
}

// NodeState says whether jobs run and can start on a node.
type NodeState uint8

// The states of a node.
const (
	NodeUp       NodeState = iota // jobs run and can start
	NodeDraining                  // jobs run, no job can start: also an empty node, or a node kept for maintenance
	NodeDown                      // no job runs
	NodeStates   = 3              // how many states there are
)

var nodeStateNames = [NodeStates]string{"up", "draining", "down"}

func (s NodeState) String() string {
	if int(s) < len(nodeStateNames) {
		return nodeStateNames[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// GPU is a device of a node.
type GPU struct {
	Kind   string // Slurm's type: "a100"; empty where Slurm has no type
	Health Health
	Use    float32 // part of its time in which the GPU computed, 0 to 1
	Watts  float32 // that the GPU draws
	Limit  float32 // watts that the GPU may draw; 0: not known
}

// Health says whether a GPU can be given to a job.
type Health uint8

// The states of a GPU's health.
const (
	HealthUnknown Health = iota // not reported; the GPU can be used
	HealthGood
	HealthBad // no job can start on the GPU
)

// MaxGPUs is how many GPUs a node can have.
const MaxGPUs = 64

// GPUSet is some GPUs of a node: bit i is Node.GPUs[i].
type GPUSet uint64

// Count returns the number of GPUs in the set.
func (g GPUSet) Count() int { return bits.OnesCount64(uint64(g)) }

// First returns the n GPUs of lowest index, or all if the set has fewer.
func (g GPUSet) First(n int) GPUSet {
	var first GPUSet
	for ; n > 0 && g != 0; n-- {
		first |= g & -g
		g &= g - 1
	}
	return first
}

// All is the set of a node's GPUs.
func (n *Node) All() GPUSet {
	if len(n.GPUs) >= MaxGPUs {
		return ^GPUSet(0)
	}
	return 1<<len(n.GPUs) - 1
}

// Usable is the set of the GPUs on which a job can start: empty unless the node is up.
func (n *Node) Usable() GPUSet {
	if n.State != NodeUp {
		return 0
	}
	var set GPUSet
	for i := range n.GPUs {
		if n.GPUs[i].Health != HealthBad {
			set |= 1 << i
		}
	}
	return set
}
