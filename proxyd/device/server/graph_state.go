// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// Handles of graphs and nodes are the shim's, but for those that come into being inside of a call: a clone's nodes, and the
// graph within a node.
const (
	graphClass class = iota + 0x20
	nodeClass
)

// graphState is what a process has of graphs and what belongs to them.
type graphState struct {
	*core
	served dispatch.Backend // carries out the calls that nodes are recorded from
	host   hostCalls

	// mu guards all graphs, nodes and executable graphs. Nothing that waits is done with it held.
	mu     sync.Mutex
	graphs table[dispatch.Graph, *graph]
	nodes  table[dispatch.Node, *graphNode]
	execs  table[dispatch.Graphexec, *graphExec]
	memory map[backend.Addr]*graphMemory
}

// graphCalls implements the calls of dispatch.GraphCalls about whole graphs.
type graphCalls struct{ *graphState }

// nodeCalls implements those about nodes.
type nodeCalls struct{ *graphState }

// execCalls implements those about executable graphs.
type execCalls struct{ *graphState }

func newGraphState(p *core, served dispatch.Backend) *graphState {
	s := &graphState{core: p, served: served, memory: map[backend.Addr]*graphMemory{}}
	s.graphs.class, s.nodes.class, s.execs.class = graphClass, nodeClass, graphExecClass
	return s
}

// lock begins a call about graphs.
func (s *graphState) lock() { s.mu.Lock() }

func (s *graphState) unlock() { s.mu.Unlock() }

// graphWaits are the calls that may wait.
var graphWaits = []string{"host_func_next", "captured", "graph_add_alloc"}

// contextEnded drops what belongs to a context that is being destroyed. It does not wait. Graphs stay: they are data, and
// cannot be instantiated any more.
func (s *graphState) contextEnded(x *cudaContext) {
	s.lock()
	defer s.unlock()
	s.execs.dropIf(func(e *graphExec) bool { return e.context == x })
	for a, m := range s.memory {
		if m.context == x {
			delete(s.memory, a)
		}
	}
}

// graph is a graph. One that is inside of a node, or of an executable graph, is a copy.
type graph struct {
	handle   dispatch.Graph // 0: nobody has one
	original *graph         // of a clone
	within   bool           // it is a node's: nobody else ends it
	data     backend.Graph
	nodes    map[backend.NodeID]*graphNode
}

// graphNode is a node; data has what it does. What the program can ask for and the backend does not know stands here.
type graphNode struct {
	handle   dispatch.Node // 0: nobody has one
	original dispatch.Node // of a clone's
	id       backend.NodeID
	in       *graph
	graphWork
}

// graphWork is what a node does, beside data.
type graphWork struct {
	kind       int32        // the driver's type of node
	context    *cudaContext // nil: work of no context
	function   dispatch.Function
	kernel     dispatch.Kernel
	attributes map[int32]dispatch.Launchvalue
	event      dispatch.Event
	ticket     uint64
	child      *graph
	memory     *graphMemory // that it allocates
	frees      backend.Addr
	counts     []dispatch.Ncclcount
	collective func() (after func()) // its launch: see collectiveRecorder
}

// The driver's types of nodes.
const (
	kernelNode     = 0
	memcpyNode     = 1
	memsetNode     = 2
	hostNode       = 3
	childNode      = 4
	emptyNode      = 5
	waitNode       = 6
	recordNode     = 7
	allocNode      = 10
	freeNode       = 11
	batchNode      = 12
	collectiveNode = kernelNode // that is what NCCL's are
)
