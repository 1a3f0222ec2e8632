// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"encoding/json"
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// Threads launch kernels (dynamic parallelism). A launch by the program, with all launches by its threads and by theirs,
// is a family, which is a single piece of work of its stream. A device runs children beside the launching grid. Here they
// run on the same stream of instructions, in an order that a device might choose, too: when the block has ended that
// launched them, each with its own children before the next, and then the launching grid's other blocks. Tail launches
// follow the grid and its other children.
//
// A family that is paused is kept as a tree of the grids that are not done.

// family is the launches that a launch by the program leads to.
type family struct {
	module  *module
	name    string // of the program's kernel
	pending uint64 // launches that may wait to begin
}

// The bounds of a family.
const (
	deepestLevel = 24       // of grids; the program's launches are of level 0
	mostPending  = 1 << 20  // launches that wait, by LimitPendingLaunches
	mostWaiting  = 16 << 20 // bytes of launches that wait
	gridBytes    = 128      // of such a launch, beside its parameters
)

// grid is a launch that is not done.
type grid struct {
	Kernel   string      `json:"kernel"`
	Grid     backend.Dim `json:"grid"`
	Block    backend.Dim `json:"block"`
	Shared   uint32      `json:"shared,omitempty"`
	Params   []byte      `json:"params,omitempty"`
	Level    int         `json:"level,omitempty"`
	Done     uint64      `json:"done,omitempty"`     // blocks, in ascending order
	Children []*grid     `json:"children,omitempty"` // in the order in which they run
	Tails    []*grid     `json:"tails,omitempty"`    // likewise, after the rest
}

// waitingBytes returns the size of a launch that waits.
func (g *grid) waitingBytes() uint64 { return gridBytes + uint64(len(g.Params)) }

// gridTree is a family that runs. The last grid of stack runs, and each of the others has launched the next, or had its
// place behind the next.
type gridTree struct {
	*family
	root     *grid // the launch by the program; nil where more than that was saved
	stack    []*grid
	waiting  uint64 // launches
	bytes    uint64 // of these
	children bool   // the running kernel has launched children since it went on
	refused  error  // why a kernel that a thread has launched cannot run
}

// makeTree makes the tree of a launch by the program of which a part was done before. Without a family there is no tree.
func (f *family) makeTree(run *launch, done backend.PartialKernel) (*gridTree, error) {
	switch {
	case f == nil && done.Launches == "":
		return nil, nil
	case f == nil:
		return nil, fmt.Errorf("the rest of a launch with launches by threads, which the kernel does not make: %w", backend.InvalidValue)
	}
	t := &gridTree{family: f}
	if done.Launches == "" {
		t.root = &grid{Kernel: f.name, Grid: run.grid, Block: run.block, Shared: run.shared, Params: run.params, Done: done.Blocks}
		t.stack = []*grid{t.root}
		return t, nil
	}
	if err := json.Unmarshal([]byte(done.Launches), &t.stack); err != nil {
		return nil, fmt.Errorf("launches by threads: %w: %w", err, backend.InvalidValue)
	}
	for _, g := range t.stack {
		if err := t.checkSaved(g, 0); err != nil {
			return nil, fmt.Errorf("launches by threads: %w: %w", err, backend.InvalidValue)
		}
	}
	return t, nil
}

// checkSaved checks a saved grid and those that it has launched, and counts the latter.
func (t *gridTree) checkSaved(g *grid, depth int) error {
	if g == nil || g.Level < 0 || g.Level > deepestLevel || g.Done > g.Grid.Count() || depth > 1 {
		return fmt.Errorf("a grid that cannot be")
	}
	if code := t.checkGrid(g); code != launchRecorded {
		return fmt.Errorf("kernel %q cannot be launched", g.Kernel)
	}
	for _, list := range [][]*grid{g.Children, g.Tails} {
		for _, c := range list {
			if err := t.checkSaved(c, depth+1); err != nil {
				return err
			}
			t.addWaiting(c, 1)
		}
	}
	return nil
}

// addWaiting adds n launches like g to the launches that wait.
func (t *gridTree) addWaiting(g *grid, n int) {
	t.waiting += uint64(n)
	t.bytes += uint64(n) * g.waitingBytes()
}

// describeIn writes the tree into the part of the launch that is done.
func (t *gridTree) describeIn(done *backend.PartialKernel) {
	first := t.stack[0]
	done.Blocks, done.Launches = first.Done, ""
	if len(t.stack) == 1 && first == t.root && len(first.Children)+len(first.Tails) == 0 {
		return
	}
	text, _ := json.Marshal(t.stack) // has no values that cannot be written
	done.Launches = string(text)
}

// runFamily runs the rest of a launch with the launches by its threads.
func runFamily(s *space, op *operation, run launch, out *kernelOutput) error {
	done := &out.done
	t, err := run.family.makeTree(&run, *done)
	if err != nil {
		return err
	}
	pausing := run.paused
	if pausing == nil {
		pausing = func() bool { return false }
	}
	run.record = t.recordChild
	run.paused = func() bool { return t.children || pausing() }
	for len(t.stack) > 0 {
		if s.ctx.Err() != nil {
			return errClosed
		}
		if pausing() {
			t.describeIn(done)
			if !op.pausePartial(*done) {
				return errClosed
			}
		}
		err := t.runNextPart(s, run)
		out.passText()
		if err != nil {
			return err
		}
	}
	return nil
}

// runNextPart runs the next part of the family.
func (t *gridTree) runNextPart(s *space, run launch) error {
	last := len(t.stack) - 1
	top := t.stack[last]
	switch {
	case len(top.Children) > 0:
		next := top.Children[0]
		top.Children = top.Children[1:]
		t.beginGrid(next)
	case top.Done < top.Grid.Count():
		return t.runBlocks(s, top, run)
	case len(top.Tails) > 0:
		next := top.Tails[0]
		if top.Tails = top.Tails[1:]; len(top.Tails) == 0 {
			t.stack = t.stack[:last] // the last takes the place of the grid: a chain of tail launches needs no room
		}
		t.beginGrid(next)
	default:
		t.stack = t.stack[:last]
	}
	return nil
}

// beginGrid begins a launch that has waited.
func (t *gridTree) beginGrid(g *grid) {
	t.addWaiting(g, -1)
	t.stack = append(t.stack, g)
}

// runBlocks runs blocks of a grid: until a block has launched children, or the space is paused, or all are done.
func (t *gridTree) runBlocks(s *space, g *grid, run launch) error {
	f := t.module.findFunction(g.Kernel)
	if err := f.compileKernel(); err != nil {
		return err
	}
	run.grid, run.block, run.shared, run.params, run.done = g.Grid, g.Block, g.Shared, g.Params, g.Done
	run.cooperative = run.cooperative && g == t.root
	run.slots = int(t.pending - min(t.waiting, t.pending))
	t.children = false
	var err error
	g.Done, err = f.kernel.runLaunch(s.ctx, &run)
	if err == nil {
		err = t.refused
	}
	return err
}

// recordChild takes a launch by a thread of the grid that runs.
func (t *gridTree) recordChild(c childLaunch) launchCode {
	top := t.stack[len(t.stack)-1]
	g := &grid{Kernel: c.kernel, Grid: c.grid, Block: c.block, Shared: c.shared, Params: c.params, Level: top.Level}
	if !c.tail {
		g.Level++
	}
	switch {
	case g.Level > deepestLevel:
		return launchTooDeep
	case t.waiting >= t.pending:
		return launchTooMany
	case t.bytes+g.waitingBytes() > mostWaiting:
		return launchOutOfResources
	}
	if code := t.checkGrid(g); code != launchRecorded {
		return code
	}
	t.addWaiting(g, 1)
	if c.tail {
		top.Tails = append(top.Tails, g)
	} else {
		top.Children, t.children = append(top.Children, g), true
	}
	return launchRecorded
}

// checkGrid checks a launch. If the kernel is one that cannot run here, t.refused says why.
func (t *gridTree) checkGrid(g *grid) launchCode {
	f := t.module.findFunction(g.Kernel)
	if f == nil {
		return launchBadConfiguration
	}
	if err := f.compileKernel(); err != nil {
		t.refused = fmt.Errorf("launch of kernel %s by a thread: %w", g.Kernel, err)
		return launchOutOfResources
	}
	l := backend.Launch{Function: f, Grid: g.Grid, Block: g.Block, Shared: g.Shared, Params: g.Params}
	info := &f.module.context.space.device.info
	if backend.CheckExtents(info, &l) != nil {
		return launchBadConfiguration
	}
	if backend.CheckLaunch(info, &l) != nil {
		return launchOutOfResources
	}
	return launchRecorded
}

// findFunction finds a function of a module, or returns nil.
func (m *module) findFunction(name string) *function {
	for _, f := range m.functions {
		if f.name == name {
			return f
		}
	}
	return nil
}

// compileFamily compiles a kernel, all kernels that have their addresses in the kernel's code, and so on, and returns why
// any of them cannot run.
func (f *function) compileFamily() error {
	found := map[*function]bool{f: true}
	for queue := []*function{f}; len(queue) > 0; queue = queue[1:] {
		next := queue[0]
		if err := next.compileKernel(); err != nil {
			return err
		}
		for _, name := range next.facts.targets {
			if c := f.module.findFunction(name); c != nil && !found[c] {
				found[c] = true
				queue = append(queue, c)
			}
		}
	}
	return nil
}
