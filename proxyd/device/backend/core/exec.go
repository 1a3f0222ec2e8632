// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package core has the code that real and software GPUs share for the calls of programs.
package core

import (
	"fmt"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// Exec has the nodes of an instantiated graph, and which of these are switched off. A backend embeds Exec in its own
// type, calls Init, and has all of backend.Exec with that. The backend decides how the graph is run.
type Exec struct {
	Mu sync.Mutex // held by a launch, too

	graph *backend.Graph
	off   map[backend.NodeID]bool
	gone  bool
	hooks ExecHooks
}

// ExecHooks are a backend's part of an Exec. Plan and Retire are called with Mu held.
type ExecHooks struct {
	CheckContext func() error               // whether the context can be used
	Plan         func(*backend.Graph) error // makes the plan of a valid graph, in the place of the earlier plan
	Retire       func()                     // frees the plan of the earlier graph; may be nil
}

// Init is called once, before any other method. The caller does not use the graph from then on.
func (x *Exec) Init(g *backend.Graph, hooks ExecHooks) {
	x.graph, x.off, x.hooks = g, map[backend.NodeID]bool{}, hooks
}

// CheckLaunch returns an error if the graph was destroyed. The caller holds Mu.
func (x *Exec) CheckLaunch() error {
	if x.gone {
		return fmt.Errorf("launch a graph: %w", backend.InvalidHandle)
	}
	return nil
}

// CopyOff returns a copy of the set of nodes that are switched off. The caller holds Mu.
func (x *Exec) CopyOff() map[backend.NodeID]bool {
	off := make(map[backend.NodeID]bool, len(x.off))
	for id := range x.off {
		off[id] = true
	}
	return off
}

func (x *Exec) checkUsable() error {
	if err := x.hooks.CheckContext(); err != nil {
		return err
	}
	if x.gone {
		return fmt.Errorf("graph: %w", backend.InvalidHandle)
	}
	return nil
}

// retireEarlier frees the backend's plan of the earlier graph. The caller holds Mu.
func (x *Exec) retireEarlier() {
	if x.hooks.Retire != nil {
		x.hooks.Retire()
	}
}

// Update implements backend.Exec, as do the methods below.
func (x *Exec) Update(g *backend.Graph) (backend.NodeID, error) {
	x.Mu.Lock()
	defer x.Mu.Unlock()
	if err := x.checkUsable(); err != nil {
		return 0, err
	}
	if id, err := g.SameShape(x.graph); err != nil {
		return id, err
	}
	next := x.graph.Clone()
	ids := g.Nodes()
	for i, id := range next.Nodes() {
		n, err := g.Node(ids[i])
		if err == nil {
			err = next.Set(id, n)
		}
		if err != nil {
			return ids[i], err
		}
	}
	return 0, x.replaceGraph(next)
}

// replaceGraph takes a valid graph over.
func (x *Exec) replaceGraph(g *backend.Graph) error {
	if err := x.hooks.Plan(g); err != nil {
		return err
	}
	x.graph = g
	x.retireEarlier()
	return nil
}

// Set replaces a node.
func (x *Exec) Set(id backend.NodeID, n backend.Node) error {
	x.Mu.Lock()
	defer x.Mu.Unlock()
	if err := x.checkUsable(); err != nil {
		return err
	}
	next := x.graph.Clone()
	if err := next.Set(id, n); err != nil {
		return err
	}
	return x.replaceGraph(next)
}

// findSwitchable finds a node that can be switched off.
func (x *Exec) findSwitchable(id backend.NodeID) error {
	if err := x.checkUsable(); err != nil {
		return err
	}
	n, err := x.graph.Node(id)
	if err != nil {
		return err
	}
	switch n.(type) {
	case backend.KernelNode, backend.CopyNode, backend.FillNode:
		return nil
	}
	return fmt.Errorf("graph: node %d cannot be switched off: %w", id, backend.InvalidValue)
}

// Enable switches a node on or off.
func (x *Exec) Enable(id backend.NodeID, on bool) error {
	x.Mu.Lock()
	defer x.Mu.Unlock()
	if err := x.findSwitchable(id); err != nil {
		return err
	}
	if on == !x.off[id] {
		return nil
	}
	if on {
		delete(x.off, id)
	} else {
		x.off[id] = true
	}
	x.retireEarlier()
	return nil
}

// Enabled tells whether a node is on.
func (x *Exec) Enabled(id backend.NodeID) (bool, error) {
	x.Mu.Lock()
	defer x.Mu.Unlock()
	if err := x.findSwitchable(id); err != nil {
		return false, err
	}
	return !x.off[id], nil
}

// Destroy ends the graph. A run that has begun goes on.
func (x *Exec) Destroy() error {
	x.Mu.Lock()
	defer x.Mu.Unlock()
	if x.gone {
		return fmt.Errorf("graph: %w", backend.InvalidHandle)
	}
	x.gone = true
	x.retireEarlier()
	return nil
}
