// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/replay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
)

// history is the calls of a process, as far as needed to build its living objects again. Calls posted to streams never
// come here: noting costs a single look-up for a call that need not be noted.
type history struct {
	mu        sync.Mutex
	graph     *replay.Graph
	primaries map[int32]*driver.Context // contexts that can end without a call that names them
	broken    string                    // why the graph is of no use, or ""
}

// Ops with messages that are read here.
var (
	opRetain  = opOf("cuDevicePrimaryCtxRetain")
	opRelease = opOf("cuDevicePrimaryCtxRelease_v2")
	opReset   = opOf("cuDevicePrimaryCtxReset_v2")
	opDestroy = opOf("cuCtxDestroy_v2")

	// Calls about pools. Pools keep memory, like the allocations in them: see memory.PoolState.
	ofPools = map[uint32]bool{
		opOf("cuMemPoolCreate"): true, opOf("cuMemPoolDestroy"): true, opOf("pool_set"): true, opOf("cuMemPoolSetAccess"): true, opOf("pool_share"): true, opOf("pool_open"): true,
		opOf("cuDeviceSetMemPool"): true, opOf("cuDeviceGetMemPool"): true, opOf("cuDeviceGetDefaultMemPool"): true,
	}
)

// The making of a communicator may be in progress: ncclInProgress. The communicator exists nevertheless.
const inProgress = 7

var (
	opSplit = opOf("comm_split")
	ofComms = map[uint32]bool{opOf("comm_init"): true, opSplit: true}

	// Calls about the state that members keep themselves: see nccl.MemberState.
	inComms = map[uint32]bool{
		opOf("comm_finalize"): true, opOf("redop_create"): true, opOf("ncclRedOpDestroy"): true,
		opOf("ncclCommRegister"): true, opOf("ncclCommDeregister"): true,
	}
)

func opOf(symbol string) uint32 {
	op, ok := replay.Find(symbol)
	if !ok {
		panic("no call is " + symbol)
	}
	return op
}

// noteCall notes a call that was carried out. in is the graph's from then on, out is not. noteCall is called before the
// call is answered, so that calls that depend on it come later.
func (p *process) noteCall(c *dispatch.Call, op uint32, in, out []byte, r dispatch.Result, err error) {
	if !replay.Lasting(op) || err != nil || r != 0 && (r != inProgress || !ofComms[op]) || ofPools[op&^dispatch.PerThread] {
		return
	}
	if inComms[op] || op == opSplit && int32(binary.LittleEndian.Uint32(in[16:])) == collective.NoColour {
		return
	}
	h := &p.history
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.graph == nil {
		h.graph, h.primaries = replay.New(), map[int32]*driver.Context{}
	}
	call := replay.Call{Op: op, Context: uint64(c.Context), In: in, Out: bytes.Clone(out)}
	switch op &^ dispatch.PerThread {
	case opRetain:
		dev := int32(binary.LittleEndian.Uint32(in[8:]))
		if !h.notePrimary(p, dev, dispatch.Context(binary.LittleEndian.Uint64(in))) {
			return // retaining again makes no object: the number of retains is remembered
		}
	case opRelease, opReset:
		h.notePrimary(p, int32(binary.LittleEndian.Uint32(in)), 0)
		return
	}
	h.addCall(call)
}

// addCall has the graph note a call. The caller holds mu.
func (h *history) addCall(call replay.Call) {
	if err := h.graph.Add(call); err != nil && h.broken == "" {
		h.broken = fmt.Sprintf("a call is not understood: %v", err)
	}
}

// notePrimary notes the end of a device's noted primary context, if that context is gone, and then notes the context
// with the given handle. notePrimary returns whether the noted context is a new one. The caller holds mu.
func (h *history) notePrimary(p *process, dev int32, handle dispatch.Context) bool {
	noted := h.primaries[dev]
	if noted != nil && noted.Gone.Load() {
		h.addCall(replay.Call{Op: opDestroy, In: binary.LittleEndian.AppendUint64(nil, uint64(noted.Handle))})
		delete(h.primaries, dev)
		noted = nil
	}
	x, ok := p.Contexts.Get(handle)
	if !ok || x == noted {
		return false
	}
	h.primaries[dev] = x
	return true
}

// callsToReplay are the calls that build the living objects again.
func (h *history) callsToReplay() []replay.Call {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.graph == nil {
		return nil
	}
	return h.graph.Calls()
}

func (h *history) Unsaved() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.broken
}
