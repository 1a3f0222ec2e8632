// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/ledger"
)

// Name implements backend.Function.
func (f *function) Name() string { return f.name }

// Module implements backend.Function.
func (f *function) Module() backend.Module { return f.module }

// Params implements backend.Function.
func (f *function) Params() []backend.Param {
	_ = f.compileKernel() // a refused kernel has no parameters
	return f.facts.params
}

// Required implements backend.Function.
func (f *function) Required() backend.Dim {
	_ = f.compileKernel()
	return f.facts.reqThreads
}

// maxThreads is the largest block that the kernel's own limit and its registers allow.
func (f *function) maxThreads() int32 {
	n := f.deviceAttributes()[backend.MaxThreadsPerBlock]
	if f.facts.maxThreads != 0 {
		n = min(n, int32(f.facts.maxThreads))
	}
	return n
}

// threadRegisters is the number of registers of a thread that is reported: as many as the interpreter needs, within the
// number that the device has for a full block.
func (f *function) threadRegisters() int32 {
	n := ledger.RoundUp(uint64(max(f.facts.registers, 8)), 8)
	return int32(min(n, uint64(f.deviceAttributes()[backend.MaxRegistersPerBlock]/max(f.maxThreads(), 32)), 255))
}

// launchFacts are the facts by which launches are checked, of a kernel that was compiled.
func (f *function) launchFacts() backend.LaunchFacts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return backend.LaunchFacts{
		MaxThreads: f.maxThreads(), MaxDynamicShared: f.dynamic, Shared: int32(f.facts.shared), Registers: f.threadRegisters(),
		Required: f.facts.reqThreads, Params: backend.SizeOfParams(f.facts.params),
	}
}

// Attribute implements backend.Function.
func (f *function) Attribute(a backend.FunctionAttribute) (int32, error) {
	if err := f.module.CheckLoaded(); err != nil {
		return 0, err
	}
	_ = f.compileKernel() // a refused kernel has attributes, and no registers
	f.mu.Lock()
	defer f.mu.Unlock()
	switch a {
	case backend.FuncMaxThreads:
		return f.maxThreads(), nil
	case backend.FuncSharedSize:
		return int32(f.facts.shared), nil
	case backend.FuncConstSize:
		return int32(f.facts.constant), nil
	case backend.FuncLocalSize:
		return int32(f.facts.local), nil
	case backend.FuncRegisters:
		return f.threadRegisters(), nil
	case backend.FuncPTXVersion:
		return f.facts.ptx, nil
	case backend.FuncBinaryVersion:
		return int32(f.module.context.space.device.backend.cfg.Capability), nil
	case backend.FuncCacheModeCA:
		return f.cache, nil
	case backend.FuncMaxDynamicShared:
		return f.dynamic, nil
	case backend.FuncSharedCarveout:
		return f.carve, nil
	case backend.FuncNonPortableCluster:
		return f.larger, nil
	case backend.FuncClusterSizeMustBeSet, backend.FuncRequiredClusterWidth, backend.FuncRequiredClusterHeight,
		backend.FuncRequiredClusterDepth, backend.FuncClusterScheduling:
		return 0, nil
	}
	return 0, fmt.Errorf("attribute %d of a function: %w", a, backend.InvalidValue)
}

// SetAttribute implements backend.Function.
func (f *function) SetAttribute(a backend.FunctionAttribute, v int32) error {
	if err := f.module.CheckLoaded(); err != nil {
		return err
	}
	_ = f.compileKernel()
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case a == backend.FuncMaxDynamicShared && v >= 0 && v <= f.deviceAttributes()[backend.MaxSharedPerBlockOptin]-int32(f.facts.shared):
		f.dynamic = v
	case a == backend.FuncSharedCarveout && v >= -1 && v <= 100:
		f.carve = v
	case a == backend.FuncNonPortableCluster:
		f.larger = min(max(v, -v), 1)
	default:
		return fmt.Errorf("set attribute %d of a function to %d: %w", a, v, backend.InvalidValue)
	}
	return nil
}

// queuedLaunch is a launch that was checked, with all that a run needs. A stream runs the launch once, with
// launchOrReuse. A node of a graph runs as often as its graph, with runCopy.
type queuedLaunch struct {
	space    *space
	function *function
	spec     launch
	output   kernelOutput // of the run, with the part of the kernel that was done before
	room     [64]byte     // for the parameters, if they are short
}

// streamLaunch is a launch in a stream's queue.
type streamLaunch struct {
	operation
	queued queuedLaunch
}

// launchesAtOnce is how many streamLaunches a context makes room for at once.
const launchesAtOnce = 8

// newLaunch returns room for a launch.
func (c *cudaContext) newLaunch() *streamLaunch {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.launches) == 0 {
		c.launches = make([]streamLaunch, launchesAtOnce)
	}
	l := &c.launches[0]
	c.launches = c.launches[1:]
	return l
}

// runQueued is run of an operation that is a streamLaunch.
func runQueued(op *operation) error { return op.launch.launchOrReuse(op) }

// runCopy carries out the launch, which stays as it is.
func (q *queuedLaunch) runCopy(op *operation) error {
	once := *q
	return once.launchOrReuse(op)
}

// launchTask checks a launch by a graph, which may set conditions of the graph.
func (c *cudaContext) launchTask(l *backend.Launch, of *conditions) (task, error) {
	q := &queuedLaunch{}
	if err := c.checkLaunch(q, l, of); err != nil {
		return task{}, err
	}
	return task{run: q.runCopy, uses: c.space.spacesInSight(), usesSeen: true}, nil
}

// checkLaunch checks a launch, which may set the conditions of a graph, and puts the launch into q.
func (c *cudaContext) checkLaunch(q *queuedLaunch, l *backend.Launch, of *conditions) error {
	f, ok := l.Function.(*function)
	if !ok || f.module.context != c {
		return fmt.Errorf("launch a function of another context: %w", backend.InvalidHandle)
	}
	if err := f.module.CheckLoaded(); err != nil {
		return err
	}
	if err := f.compileKernel(); err != nil {
		return err
	}
	info := &c.space.device.info
	if err := backend.CheckExtents(info, l); err != nil {
		return err
	}
	facts := f.launchFacts()
	if err := facts.CheckLaunch(info, l); err != nil {
		return err
	}
	if l.Cooperative && l.Done != (backend.PartialKernel{}) {
		return fmt.Errorf("launch the rest of a cooperative kernel: %w", backend.InvalidValue)
	}
	s := c.space
	q.space, q.function, q.output.done = s, f, l.Done
	c.mu.Lock()
	q.spec = launch{
		grid: l.Grid, block: l.Block, shared: l.Shared, params: append(q.room[:0], l.Params...), memory: s.table.engine, cooperative: l.Cooperative,
		workers: s.device.backend.cfg.Workers, stack: c.limits[backend.LimitStackSize],
		sms: uint32(s.device.info.Attributes[backend.Multiprocessors]), issued: &s.at.Load().issued,
	}
	q.output.fifo = c.limits[backend.LimitPrintfFIFO]
	var heap, pending uint64
	if f.facts.hooks || f.facts.launches {
		heap, pending = c.limits[backend.LimitMallocHeap], c.limits[backend.LimitPendingLaunches]
	}
	c.mu.Unlock()
	if f.facts.hooks || f.facts.launches { // or the kernels that it launches
		q.spec.malloc = func(n uint64) uint64 { return s.allocFromKernel(n, heap, c.ID()) }
		q.spec.free = s.kernelFree
		q.spec.condition = of.setValue
	}
	if f.facts.launches {
		q.spec.family = &family{module: f.module, name: f.name, pending: pending}
	}
	if q.spec.family == nil && l.Done.Launches == "" {
		return nil
	}
	_, err := q.spec.family.makeTree(&q.spec, l.Done)
	return err
}

// runKernel runs the rest of the kernel. While the space is paused the kernel waits, after the blocks that run,
// unless the kernel is cooperative or a node of a graph.
func (q *queuedLaunch) runKernel(op *operation) error {
	s, run, out := q.space, &q.spec, &q.output
	out.space, run.output = s, out
	if op.stream != nil && !run.cooperative {
		run.paused = s.isPaused
	}
	if run.family != nil {
		return runFamily(s, op, *run, out)
	}
	for all := run.grid.Count(); ; {
		var err error
		run.done = out.done.Blocks
		out.done.Blocks, err = q.function.kernel.runLaunch(s.ctx, run)
		out.passText()
		if err != nil || out.done.Blocks >= all {
			return err
		}
		if !op.pausePartial(out.done) {
			return errClosed
		}
	}
}

// kernelOutput is the text that a kernel has printed and that was not passed to the program's output.
type kernelOutput struct {
	space *space
	text  []byte
	fifo  uint64                // bytes that the launch may print
	done  backend.PartialKernel // of the launch, with the bytes that the launch has printed
}

// addText adds text. The message of a failed assertion, of fd 2, goes out at once, behind the text.
func (o *kernelOutput) addText(fd int, more []byte) {
	switch {
	case fd == 2:
		o.passText()
		o.space.printText(2, more)
		o.done.Printed = 0
	case o.done.Printed+uint64(len(more)) <= o.fifo: // else the text is lost, as on a device
		o.text = append(o.text, more...)
		o.done.Printed += uint64(len(more))
	}
}

// passText passes the text to the program's output.
func (o *kernelOutput) passText() {
	o.space.printText(1, o.text)
	o.text = nil
}

// printText passes a kernel's printed text to the program's output.
func (s *space) printText(fd int, text []byte) {
	if len(text) == 0 || s.cfg.Output == nil {
		return
	}
	s.output.Lock()
	defer s.output.Unlock()
	s.cfg.Output(fd, text)
}
