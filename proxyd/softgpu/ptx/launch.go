// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/memory"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/native"
)

// The limits of a launch, of all compute capabilities from 8.0 on. A device's own limit of shared memory may be
// tighter: backend.CheckLaunch refuses a launch over it.
const (
	MaxThreads       = 1024 // of a block
	MaxBlockZ        = 64
	MaxGridX         = 1<<31 - 1
	MaxGridYZ        = 1<<16 - 1
	MaxShared        = 227 << 10 // bytes of a block, static and dynamic: the limit of capabilities 9.0 and 10.0
	DefaultStackSize = 16 << 10  // bytes of local memory of a thread without a bound on its calls
)

// Config is a launch.
type Config struct {
	Grid, Block Dim3
	Shared      uint32 // bytes of dynamic shared memory
	Params      []byte // the kernel's parameters, as Kernel.Params lays them out
	Memory      *memory.Memory
	Hooks       Hooks

	// Interpret executes all by the interpreter, even where there can be machine code. The result is the same.
	Interpret bool
	// Code, if not nil, has the machine code that earlier processes have made, and is given what is made now.
	Code CodeStore

	// Cooperative launches run all blocks at once, so that they may wait for each other.
	// All are held in memory; the caller bounds their number.
	Cooperative bool
	// Workers is the number of cores used at most, 0: GOMAXPROCS. The number does not change the
	// result.
	Workers int
	// StackSize is the local memory of a thread of kernels with recursion, indirect calls
	// or alloca, 0: DefaultStackSize.
	StackSize uint32
	// Env is %envreg0 to %envreg31. In a cooperative launch 1 and 2 hold the address of the
	// grid's workspace, unless they are set.
	Env [32]uint32
	// GridID is %gridid.
	GridID uint64
	// SMs is %nsmid, 0: 108.
	SMs uint32
	// Done, if not nil, is the number of blocks that ran before, in ascending order, which are left out. Launch sets it
	// to the number of blocks that have run by its end. In cooperative launches it is nil.
	Done *uint64
	// Paused, if not nil, is asked before each block begins. If Paused returns true, Launch returns
	// nil when the blocks that have begun are done.
	Paused func() bool
	// MostChildren is how much work threads may launch until the launch ends or pauses.
	MostChildren int
	// Count, if not nil, is set to the number of lane-instructions executed.
	Count *uint64
	// Issued, if not nil, is increased by the number of instructions that warps have issued. A launch that
	// ends with an error adds only a part of them.
	Issued *atomic.Uint64
	// Touched, if not nil, collects the memory that the launch accesses. It is complete if Launch returns nil.
	Touched *memory.TouchedRanges
}

// launch is a launch that runs.
type launch struct {
	kernel   *Kernel
	cfg      Config
	ctx      context.Context
	memory   *memory.Memory
	counting bool
	native   bool   // machine code runs where there is some
	first    uint64 // blocks that ran before
	children childBuffers
	spread   spread
}

// launches has launches that are over and empty, for later launches. No block that is used again refers to a launch that
// is over: see recycleBlock.
var launches = sync.Pool{New: func() any { return new(launch) }}

// isPausing tells whether no more blocks are to begin.
func (r *launch) isPausing() bool { return r.cfg.Paused != nil && r.cfg.Paused() }

// noteBlocksDone notes how many blocks are done.
func (r *launch) noteBlocksDone(n uint64) {
	if r.cfg.Done != nil {
		*r.cfg.Done = min(n, r.cfg.Grid.Count())
	}
}

// sharedSize is the size of a block's own shared memory.
func (r *launch) sharedSize() int { return int(r.kernel.dynamicBase + r.cfg.Shared) }

// reservedAt is where the reserved shared memory begins.
func (r *launch) reservedAt() int { return (r.sharedSize() + 127) &^ 127 }

// allShared is the size of a block's shared memory with the reserved part.
func (r *launch) allShared() int {
	if r.kernel.reserved {
		return r.reservedAt() + reservedSize
	}
	return r.sharedSize()
}

// Launch runs the kernel to its end and returns nil, a *LaunchError before any block ran, a *Fault, or ctx's error,
// which is checked between turns of warps. Launches may run concurrently.
func (k *Kernel) Launch(ctx context.Context, cfg Config) error {
	if err := k.checkConfig(&cfg); err != nil {
		return err
	}
	if cfg.SMs == 0 {
		cfg.SMs = 108
	}
	r := launches.Get().(*launch)
	defer func() {
		*r = launch{}
		launches.Put(r)
	}()
	r.kernel, r.cfg, r.ctx, r.memory, r.counting = k, cfg, ctx, cfg.Memory, cfg.Count != nil
	if r.native = !cfg.Interpret && !r.counting && native.Check() == nil; r.native {
		k.compileNative(cfg.Code)
	}
	if cfg.Done != nil {
		r.first = *cfg.Done
	}
	if r.memory == nil {
		r.memory = new(memory.Memory)
	}
	defer r.children.scratch.Unmap(r.memory)
	if cfg.Cooperative {
		if n := cfg.Grid.Count(); n > maxBlockBytes/r.blockBytes() {
			return &LaunchError{Kernel: k.Name, Reason: CooperativeTooLarge, Msg: fmt.Sprintf("%d blocks at once need more than %d bytes", n, uint64(maxBlockBytes))}
		}
		err := r.inWorkspace(r.runTogether) // its blocks wait for each other: they end together
		r.noteBlocksDone(cfg.Grid.Count())
		return err
	}
	if k.Ordered || r.counting {
		return r.inOrder()
	}
	return r.spreadBlocks(r.countWorkers())
}

// countWorkers is how many workers the launch's blocks are spread over.
func (r *launch) countWorkers() int {
	all := r.cfg.Grid.Count()
	n := all - min(r.first, all)
	if n <= 1 {
		return 1 // GOMAXPROCS, which takes a lock, need not be asked
	}
	workers := r.cfg.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	return int(min(uint64(workers), n))
}

// The counter in which grid.sync() of CUDA's cooperative groups counts arrivals: the driver gives each cooperative
// launch the address of 8 bytes, the first 4 of which are their size, by %envreg1 (the upper half) and %envreg2.
const (
	gridWorkspaces = 4 << 32 // addresses of workspaces, of which a launch takes the first free range
	gridWorkspace  = 256     // bytes
)

// inWorkspace runs a launch with a workspace of its own.
func (r *launch) inWorkspace(run func() error) error {
	if r.cfg.Env[1] != 0 || r.cfg.Env[2] != 0 {
		return run()
	}
	room := make([]byte, 2*gridWorkspace)
	room[0] = 8
	at := uint64(gridWorkspaces)
	for r.memory.Map(at, room[:gridWorkspace], false) != nil {
		if at += gridWorkspace; at >= gridWorkspaces+1<<32 {
			return &LaunchError{Kernel: r.kernel.Name, Reason: OutOfResources, Msg: "no address is free for the grid's workspace"}
		}
	}
	r.cfg.Env[1], r.cfg.Env[2] = uint32(at>>32), uint32(at)
	return errors.Join(run(), r.memory.Unmap(at))
}

// maxBlockBytes bounds the local and shared memory of blocks that run together.
const maxBlockBytes = 8 << 30

// blockBytes is the memory of a block.
func (r *launch) blockBytes() uint64 {
	warps := (r.cfg.Block.Count() + warpSize - 1) / warpSize
	return warps*(warpSize*uint64(r.kernel.stackSize(r.cfg.StackSize))+4096) + uint64(r.allShared())
}

// checkConfig refuses a configuration that no device would run.
func (k *Kernel) checkConfig(cfg *Config) error {
	bad := func(reason LaunchReason, format string, args ...any) error {
		return &LaunchError{Kernel: k.Name, Reason: reason, Msg: fmt.Sprintf(format, args...)}
	}
	g, b := cfg.Grid, cfg.Block
	switch {
	case g.X == 0 || g.Y == 0 || g.Z == 0 || b.X == 0 || b.Y == 0 || b.Z == 0:
		return bad(BadConfiguration, "grid %v, block %v: a dimension is zero", g, b)
	case g.X > MaxGridX || g.Y > MaxGridYZ || g.Z > MaxGridYZ:
		return bad(BadConfiguration, "grid %v is too large", g)
	case b.X > MaxThreads || b.Y > MaxThreads || b.Z > MaxBlockZ || b.Count() > MaxThreads:
		return bad(BadConfiguration, "block %v is too large", b)
	case k.MaxThreads != 0 && b.Count() > uint64(k.MaxThreads):
		return bad(OutOfResources, "block %v has more than the %d threads of .maxntid", b, k.MaxThreads)
	case k.ReqThreads != Dim3{} && k.ReqThreads != b:
		return bad(BadConfiguration, "block %v is not the %v of .reqntid", b, k.ReqThreads)
	case uint64(k.dynamicBase)+uint64(cfg.Shared) > MaxShared:
		return bad(OutOfResources, "%d + %d bytes of shared memory are more than %d", k.SharedSize, cfg.Shared, MaxShared)
	case len(cfg.Params) < int(k.ParamSize):
		return bad(BadConfiguration, "%d bytes of parameters, the kernel takes %d", len(cfg.Params), k.ParamSize)
	}
	return nil
}

// spread is the state of spreadBlocks.
type spread struct {
	next   atomic.Uint64 // block
	lowest atomic.Uint64 // block with a fault; the number of blocks if there is none
	mu     sync.Mutex
	err    error // of the lowest block
	wait   sync.WaitGroup
}

// spreadBlocks runs the blocks on workers, each the next in ascending order. Of several faults
// the fault of the lowest block is returned: all blocks below it have run to their end.
func (r *launch) spreadBlocks(workers int) error {
	x := &r.spread
	x.lowest.Store(r.cfg.Grid.Count())
	x.next.Store(r.first)
	for range workers - 1 {
		x.wait.Go(r.takeBlocks)
	}
	r.takeBlocks()
	x.wait.Wait()
	r.noteBlocksDone(x.next.Load())
	return x.err
}

// takeBlocks is a worker of spreadBlocks.
func (r *launch) takeBlocks() {
	x, b := &r.spread, getBlock(r)
	for !r.isPausing() {
		i := x.next.Add(1) - 1
		err := r.ctx.Err()
		if err != nil {
			x.mu.Lock()
			if x.err == nil {
				x.err = err
			}
			x.mu.Unlock()
		}
		if err != nil || i >= x.lowest.Load() {
			break
		}
		if err := r.runBlock(b, i); err != nil {
			b.addCount()
			x.mu.Lock()
			if i < x.lowest.Load() {
				x.err = err
				x.lowest.Store(i)
			}
			x.mu.Unlock()
			return
		}
	}
	b.addCount()
	b.recycleBlock()
}

// runBlock runs a block from start to end.
func (r *launch) runBlock(b *block, index uint64) (err error) {
	defer recoverFault(&err)
	if !b.straight {
		b.startBlock(index)
	} else if b.runStraight(index) {
		return nil
	}
	for {
		done, moved := b.runTurn()
		if done {
			b.noteStraight()
			return nil
		}
		if !moved {
			b.reportStuck()
		}
		if err := r.ctx.Err(); err != nil {
			return err
		}
	}
}

// Blocks that run in order start early when the blocks before only seem to wait: after spinRounds
// turns in which all of their warps spun. At most maxTogether are under way.
const (
	spinRounds  = 64
	maxTogether = 256
)

// inOrder runs the blocks on this core, each when the blocks before are done. If blocks wait for
// later blocks, without saying so by a cooperative launch, they run together.
func (r *launch) inOrder() (err error) {
	defer recoverFault(&err)
	var running, free []*block
	most := int(min(maxTogether, max(maxBlockBytes/r.blockBytes(), 1)))
	n, next, stalled := r.cfg.Grid.Count(), r.first, 0
	for next < n || len(running) > 0 {
		if len(running) == 0 {
			if r.isPausing() {
				break // no running block waits for a block that has not begun
			}
			r.children.forgetBuffers(r)
		}
		if next < n && (len(running) == 0 || stalled >= spinRounds && len(running) < most) {
			var b *block
			if last := len(free) - 1; last >= 0 {
				b, free = free[last], free[:last]
			} else {
				b = getBlock(r)
			}
			b.startBlock(next)
			next, stalled = next+1, 0
			running = append(running, b)
		}
		moved, spun := false, true
		left := running[:0]
		for _, b := range running {
			b.spun = false
			done, m := b.runTurn()
			moved = moved || m
			spun = spun && b.spun && !done
			if done {
				free = append(free, b)
			} else {
				left = append(left, b)
			}
		}
		running = left
		if stalled++; !spun {
			stalled = 0
		}
		if !moved {
			running[0].reportStuck()
		}
		if err := r.ctx.Err(); err != nil {
			return err
		}
	}
	for _, b := range free {
		b.addCount()
		b.recycleBlock()
	}
	r.noteBlocksDone(next)
	return nil
}

// runTogether runs all blocks of a cooperative launch, each a turn at a time.
func (r *launch) runTogether() (err error) {
	defer recoverFault(&err)
	blocks := make([]*block, r.cfg.Grid.Count())
	for i := range blocks {
		blocks[i] = newBlock(r)
		blocks[i].startBlock(uint64(i))
	}
	running := append([]*block(nil), blocks...)
	for len(running) > 0 {
		any := false
		left := running[:0]
		for _, b := range running {
			done, moved := b.runTurn()
			any = any || moved
			if !done {
				left = append(left, b)
			}
		}
		running = left
		if !any && len(running) > 0 {
			running[0].reportStuck()
		}
		if err := r.ctx.Err(); err != nil {
			return err
		}
	}
	for _, b := range blocks {
		b.addCount()
	}
	return nil
}
