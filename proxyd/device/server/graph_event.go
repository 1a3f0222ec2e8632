// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// eventNode is what a node does with an event of the program's: of kind recordNode or waitNode.
func (p *graphState) eventNode(kind int32, event dispatch.Event) (backend.Node, graphWork, dispatch.Result) {
	e, r := p.event(event)
	if r != 0 {
		return nil, graphWork{}, r
	}
	work := graphWork{kind: kind, event: event}
	if kind == waitNode {
		return backend.WaitNode{Event: e.b}, work, 0
	}
	work.context = e.context
	return backend.RecordNode{Event: e.b}, work, 0
}

func (p *graphState) addEvent(h dispatch.Node, in dispatch.Graph, deps []dispatch.Node, kind int32, event dispatch.Event) dispatch.Result {
	does, work, r := p.eventNode(kind, event)
	if r != 0 {
		return r
	}
	return p.addSimple(h, in, deps, does, work)
}

func (p *graphState) getEvent(h dispatch.Node, kind int32) (dispatch.Event, dispatch.Result) {
	p.lock()
	defer p.unlock()
	n, r := p.nodeOf(h, kind)
	if r != 0 {
		return 0, r
	}
	return n.event, 0
}

func (p *graphState) setEvent(h dispatch.Node, kind int32, event dispatch.Event) dispatch.Result {
	does, work, r := p.eventNode(kind, event)
	if r != 0 {
		return r
	}
	p.lock()
	defer p.unlock()
	n, r := p.nodeOf(h, kind)
	if r != 0 {
		return r
	}
	n.event, n.context = work.event, work.context
	return p.result(n.in.data.Set(n.id, does))
}

// GraphAddEventRecordNode implements dispatch.Backend, as all below.
func (p *nodeCalls) GraphAddEventRecordNode(_ *dispatch.Call, h dispatch.Node, in dispatch.Graph, deps []dispatch.Node, _ uint64, event dispatch.Event) dispatch.Result {
	return p.addEvent(h, in, deps, recordNode, event)
}

func (p *nodeCalls) GraphEventRecordNodeGetEvent(_ *dispatch.Call, h dispatch.Node) (dispatch.Event, dispatch.Result) {
	return p.getEvent(h, recordNode)
}

func (p *nodeCalls) GraphEventRecordNodeSetEvent(_ *dispatch.Call, h dispatch.Node, event dispatch.Event) dispatch.Result {
	return p.setEvent(h, recordNode, event)
}

func (p *nodeCalls) GraphAddEventWaitNode(_ *dispatch.Call, h dispatch.Node, in dispatch.Graph, deps []dispatch.Node, _ uint64, event dispatch.Event) dispatch.Result {
	return p.addEvent(h, in, deps, waitNode, event)
}

func (p *nodeCalls) GraphEventWaitNodeGetEvent(_ *dispatch.Call, h dispatch.Node) (dispatch.Event, dispatch.Result) {
	return p.getEvent(h, waitNode)
}

func (p *nodeCalls) GraphEventWaitNodeSetEvent(_ *dispatch.Call, h dispatch.Node, event dispatch.Event) dispatch.Result {
	return p.setEvent(h, waitNode, event)
}

func (p *nodeCalls) GraphExecEventRecordNodeSetEvent(_ *dispatch.Call, exec dispatch.Graphexec, h dispatch.Node, event dispatch.Event) dispatch.Result {
	return p.setExecEvent(exec, h, recordNode, event)
}

func (p *nodeCalls) GraphExecEventWaitNodeSetEvent(_ *dispatch.Call, exec dispatch.Graphexec, h dispatch.Node, event dispatch.Event) dispatch.Result {
	return p.setExecEvent(exec, h, waitNode, event)
}

func (p *nodeCalls) setExecEvent(exec dispatch.Graphexec, h dispatch.Node, kind int32, event dispatch.Event) dispatch.Result {
	does, work, r := p.eventNode(kind, event)
	if r != 0 {
		return r
	}
	return p.setExec(exec, h, does, work)
}
