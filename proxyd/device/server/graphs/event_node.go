// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// eventNode makes the work of a node that records an event of the program's or waits for it: of kind recordNode or
// waitNode.
func (p *Graphs) eventNode(kind int32, event dispatch.Event) (backend.Node, graphWork, dispatch.Result) {
	e, r := p.Event(event)
	if r != 0 {
		return nil, graphWork{}, r
	}
	if e.Interprocess() {
		p.NoteMissed("a node of a graph with an event of CU_EVENT_INTERPROCESS") // its order among processes would be lost at a cut
		return nil, graphWork{}, dispatch.ResultNotSupported
	}
	work := graphWork{kind: kind, event: event}
	if kind == waitNode {
		return backend.WaitNode{Event: e.Backend}, work, 0
	}
	work.context = e.Context
	return backend.RecordNode{Event: e.Backend}, work, 0
}

func (p *Graphs) addEvent(h dispatch.Node, in dispatch.Graph, deps []dispatch.Node, kind int32, event dispatch.Event) dispatch.Result {
	does, work, r := p.eventNode(kind, event)
	if r != 0 {
		return r
	}
	return p.addSimple(h, in, deps, does, work)
}

func (p *Graphs) getEvent(h dispatch.Node, kind int32) (dispatch.Event, dispatch.Result) {
	p.lockGraphs()
	defer p.unlockGraphs()
	n, r := p.nodeOf(h, kind)
	if r != 0 {
		return 0, r
	}
	return n.event, 0
}

func (p *Graphs) setEvent(h dispatch.Node, kind int32, event dispatch.Event) dispatch.Result {
	does, work, r := p.eventNode(kind, event)
	if r != 0 {
		return r
	}
	p.lockGraphs()
	defer p.unlockGraphs()
	n, r := p.nodeOf(h, kind)
	if r != 0 {
		return r
	}
	n.event, n.context = work.event, work.context
	return p.Result(n.in.data.Set(n.id, does))
}

// GraphAddEventRecordNode implements dispatch.Backend, as all below.
func (p *NodeCalls) GraphAddEventRecordNode(_ *dispatch.Call, h dispatch.Node, in dispatch.Graph, deps []dispatch.Node, _ uint64, event dispatch.Event) dispatch.Result {
	return p.addEvent(h, in, deps, recordNode, event)
}

func (p *NodeCalls) GraphEventRecordNodeGetEvent(_ *dispatch.Call, h dispatch.Node) (dispatch.Event, dispatch.Result) {
	return p.getEvent(h, recordNode)
}

func (p *NodeCalls) GraphEventRecordNodeSetEvent(_ *dispatch.Call, h dispatch.Node, event dispatch.Event) dispatch.Result {
	return p.setEvent(h, recordNode, event)
}

func (p *NodeCalls) GraphAddEventWaitNode(_ *dispatch.Call, h dispatch.Node, in dispatch.Graph, deps []dispatch.Node, _ uint64, event dispatch.Event) dispatch.Result {
	return p.addEvent(h, in, deps, waitNode, event)
}

func (p *NodeCalls) GraphEventWaitNodeGetEvent(_ *dispatch.Call, h dispatch.Node) (dispatch.Event, dispatch.Result) {
	return p.getEvent(h, waitNode)
}

func (p *NodeCalls) GraphEventWaitNodeSetEvent(_ *dispatch.Call, h dispatch.Node, event dispatch.Event) dispatch.Result {
	return p.setEvent(h, waitNode, event)
}

func (p *NodeCalls) GraphExecEventRecordNodeSetEvent(_ *dispatch.Call, exec dispatch.Graphexec, h dispatch.Node, event dispatch.Event) dispatch.Result {
	return p.setExecEvent(exec, h, recordNode, event)
}

func (p *NodeCalls) GraphExecEventWaitNodeSetEvent(_ *dispatch.Call, exec dispatch.Graphexec, h dispatch.Node, event dispatch.Event) dispatch.Result {
	return p.setExecEvent(exec, h, waitNode, event)
}

func (p *NodeCalls) setExecEvent(exec dispatch.Graphexec, h dispatch.Node, kind int32, event dispatch.Event) dispatch.Result {
	does, work, r := p.eventNode(kind, event)
	if r != 0 {
		return r
	}
	return p.setExec(exec, h, does, work)
}
