// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// TestCapturedGroup: a group over two communicators of a thread, on streams of their own, becomes a node where the
// communicators are of a context. A group over several devices is refused, for a graph has a single
// context, and is the end of its communicators.
func TestCapturedGroup(t *testing.T) {
	for name, tc := range map[string]struct {
		second uint64 // the context of the second communicator
		want   int32
	}{
		"one device":  {ctxA, 0},
		"two devices": {ctxB, int32(dispatch.ResultNcclInvalidArgument)},
	} {
		t.Run(name, func(t *testing.T) {
			_, cs := attachProcess(t, newServer(t, 2), 1)
			r := &graphRig{client: cs[0]}
			r.beginContext(ctxA, 0)
			r.beginContext(ctxB, 1)
			id := [128]byte(r.must("ncclGetUniqueId"))
			contexts, streams := []uint64{ctxA, tc.second}, []uint64{streamA, streamB}
			var at []uint64
			var ops []dispatch.Ncclop
			for i, comm := range []uint64{commA, commB} {
				r.context = contexts[i]
				r.init(comm, 2, i, id)
				r.must("cuStreamCreate", streams[i], uint32(1))
				at = append(at, r.alloc(64))
				r.writeInts(at[i], int32(i+1))
				r.must("cuCtxSynchronize")
				ops = append(ops, dispatch.Ncclop{
					Kind: int32(collective.AllReduce), Type: ncclInt32, Count: 1, Src: dispatch.Devptr(at[i]),
					Dst: dispatch.Devptr(at[i]), Comm: dispatch.Comm(comm), Stream: dispatch.Stream(streams[i]),
				})
			}
			for _, comm := range []uint64{commA, commB} {
				if state, _, _, _ := r.waitForState(comm); state != 0 {
					t.Fatalf("state of communicator %#x = %v, want 0", comm, state)
				}
			}
			r.context = ctxA
			r.must("cuGraphCreate", uint64(graphA), uint32(0))
			args := []any{uint64(0), uint32(0), uint64(2), ops[0], ops[1], uint32(2), uint64(streamA)}
			r.checkCaptured(tc.want, nodeA, graphA, nil, 0, "nccl_group", args...)
			if tc.want != 0 {
				for _, comm := range []uint64{commA, commB} {
					if state, _, _, _ := r.waitForState(comm); state != ncclInvalidArgument {
						t.Errorf("the communicator's state is %d, want %d", state, ncclInvalidArgument)
					}
				}
				return
			}
			exec := r.instantiateGraph(graphA)
			for range 3 {
				r.post("graph_launch", exec, uint64(streamA))
			}
			r.must("cuStreamSynchronize", uint64(streamA))
			for i := range at {
				if got := r.readInts(at[i], 1)[0]; got != 3<<2 {
					t.Errorf("rank %d has %d, want %d", i, got, 3<<2)
				}
			}
		})
	}
}
