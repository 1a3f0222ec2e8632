// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"fmt"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// conditions are the values that kernels of an executable graph set, by which its conditional nodes choose their
// bodies. Runs of an executable graph follow each other, so that each condition has a single value. Values need not be
// saved: a graph that runs has ended before its context is saved, and a launch begins with values of its own.
type conditions struct {
	mu     sync.Mutex
	values map[uint64]uint32
}

func newConditions() *conditions { return &conditions{values: map[uint64]uint32{}} }

// setValue is a kernel's call. A handle that is no condition of the graph is ignored. So is each call of a kernel
// outside of a graph, for which c is nil.
func (c *conditions) setValue(condition uint64, value uint32) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.values[condition]; known {
		c.values[condition] = value
	}
}

// addCondition adds a condition of the graph.
func (c *conditions) addCondition(condition uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.values[condition] = 0
}

// clearValues sets all values to 0 for a launch.
func (c *conditions) clearValues() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for condition := range c.values {
		c.values[condition] = 0
	}
}

func (c *conditions) readCondition(condition uint64) uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.values[condition]
}

// choice is a conditional node that was checked.
type choice struct {
	of        *conditions
	condition uint64
	assign    bool
	initial   uint32
	kind      backend.ConditionKind
	bodies    []*plan
}

// SetsConditions implements backend.ConditionSetter.
func (c *cudaContext) SetsConditions() bool { return true }

// planChoice checks a conditional node.
func (c *cudaContext) planChoice(n backend.ConditionalNode, of *conditions) (*choice, error) {
	if len(n.Bodies) == 0 || n.Kind < backend.ConditionIf || n.Kind > backend.ConditionSwitch {
		return nil, fmt.Errorf("a conditional node of kind %d with %d graphs: %w", n.Kind, len(n.Bodies), backend.InvalidValue)
	}
	x := &choice{of: of, condition: n.Condition, assign: n.Assign, initial: n.Initial, kind: n.Kind}
	of.addCondition(n.Condition)
	for _, b := range n.Bodies {
		p, err := c.planGraph(b, of)
		if err != nil {
			return nil, err
		}
		x.bodies = append(x.bodies, p)
	}
	return x, nil
}

// runChoice runs the graph that a condition chooses, and a loop's graph again until its condition ends the loop, the
// context has a fault or the space is closed.
func (r *run) runChoice(x *choice) {
	for r.context.Err() == nil && r.context.space.ctx.Err() == nil {
		i, some := x.kind.Choose(x.of.readCondition(x.condition), len(x.bodies))
		if !some {
			return
		}
		body, err := x.bodies[i].beginRun(r.context, nil)
		if err != nil {
			r.context.SetFault(err)
			return
		}
		body.publishEvents()
		body.runSteps()
		if x.kind != backend.ConditionWhile {
			return
		}
	}
}
