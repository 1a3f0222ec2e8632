// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/handles"
)

// Handles of graphs and nodes are the shim's, but for handles that come into being inside of a call: a
// clone's nodes, and the graph within a node.
const (
	graphClass handles.Class = iota + 0x20
	nodeClass
)

// Graphs holds a process's graphs, nodes and executable graphs, and their memory.
type Graphs struct {
	*driver.Process
	served        dispatch.Backend // carries out the calls that nodes are recorded from
	HostFunctions HostFunctions

	// mu guards all graphs, nodes and executable graphs. No operation that waits runs with mu held.
	mu     sync.Mutex
	graphs handles.Table[dispatch.Graph, *graph]
	nodes  handles.Table[dispatch.Node, *graphNode]
	execs  handles.Table[dispatch.Graphexec, *graphExec]
	memory map[backend.Addr]*graphMemory

	conditions handles.Table[dispatch.Condition, *condition]

	footprints map[int32]Footprint // of devices, by ordinal
}

// Calls implements the calls of dispatch.GraphCalls about whole graphs.
type Calls struct{ *Graphs }

// NodeCalls implements the calls about nodes.
type NodeCalls struct{ *Graphs }

// ExecCalls implements the calls about executable graphs.
type ExecCalls struct{ *Graphs }

// New makes the Graphs of a process that has no graph yet. served carries out the calls that nodes are recorded from.
func New(p *driver.Process, served dispatch.Backend) *Graphs {
	s := &Graphs{Process: p, served: served, memory: map[backend.Addr]*graphMemory{}, footprints: map[int32]Footprint{}}
	s.graphs.Class, s.nodes.Class, s.execs.Class = graphClass, nodeClass, handles.GraphExecClass
	return s
}

// NewCalls are the calls that work on a process's graphs.
func NewCalls(s *Graphs) (*Calls, *NodeCalls, *ExecCalls) {
	return &Calls{s}, &NodeCalls{s}, &ExecCalls{s}
}

// lockGraphs takes the lock for a call about graphs.
func (s *Graphs) lockGraphs() { s.mu.Lock() }

func (s *Graphs) unlockGraphs() { s.mu.Unlock() }

// Waits are the calls that may wait.
var Waits = []string{"host_func_next", "captured", "graph_add_alloc"}

// ContextEnded drops the executable graphs and the memory of a context that is being destroyed, and does not wait.
// Graphs stay: they are data, and cannot be instantiated any more.
func (s *Graphs) ContextEnded(x *driver.Context) {
	s.lockGraphs()
	defer s.unlockGraphs()
	s.execs.DropIf(func(e *graphExec) bool { return e.context == x })
	for a, m := range s.memory {
		if m.context == x {
			delete(s.memory, a)
		}
	}
}

// graph is a graph. A graph inside of a node, or of an executable graph, is a copy.
type graph struct {
	handle   dispatch.Graph // 0: without a handle
	original *graph         // of a clone
	within   bool           // the graph of a node: only the node ends it
	data     backend.Graph
	nodes    map[backend.NodeID]*graphNode
}

// graphNode is a node; data has its work. The fields hold facts that the program can ask for and that the backend does
// not know.
type graphNode struct {
	handle   dispatch.Node // 0: without a handle
	original dispatch.Node // of a clone's
	id       backend.NodeID
	in       *graph
	graphWork
}

// graphWork is the work of a node, beside data.
type graphWork struct {
	kind       int32           // the driver's type of node
	context    *driver.Context // nil: work of no context
	function   dispatch.Function
	kernel     dispatch.Kernel
	attributes map[int32]dispatch.Launchvalue
	event      dispatch.Event
	ticket     uint64
	child      *graph
	condition  *condition
	bodies     []*graph     // of a conditional node
	memory     *graphMemory // that the node allocates
	frees      backend.Addr
	counts     []dispatch.Ncclcount
	collective func() (after func()) // its launch: see collectiveRecorder
}

// The driver's types of nodes.
const (
	KernelNode     = 0
	MemcpyNode     = 1
	MemsetNode     = 2
	HostNode       = 3
	childNode      = 4
	emptyNode      = 5
	waitNode       = 6
	recordNode     = 7
	allocNode      = 10
	freeNode       = 11
	BatchNode      = 12
	conditionNode  = 13
	collectiveNode = KernelNode // NCCL's nodes are kernel nodes
)
