// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// makeExecutable makes an executable graph of a graph that has a single node, of a call.
func (w *twin) makeExecutable(symbol string, args ...any) (graph, exec uint64) {
	w.t.Helper()
	graph = w.newHandle()
	w.callBoth("cuGraphCreate", graph, uint32(0))
	w.nodeOf(graph, symbol, args...)
	r, out := w.callBoth("graph_instantiate", graph, paramsWithFlags(0), uint32(256))
	if r != 0 {
		w.t.Fatalf("instantiate %s: %d", symbol, r)
	}
	return graph, u64(out[8:])
}

// TestTwinsFreed: graphs with nodes that name memory that was freed since are restored. Their results are as without a
// restore.
func TestTwinsFreed(t *testing.T) {
	const size = 3 << 20 // a span of its own: the next allocation of this size gets its addresses
	begin := func(t *testing.T) (w *twin, a, b uint64) {
		w = newTwin(t)
		w.callBoth("cuCtxCreate_v2", uint64(ctxB), uint32(0), int32(1))
		w.callBoth("cuCtxCreate_v2", uint64(ctxA), uint32(0), int32(0))
		w.c[0].context = ctxA
		_, first := w.callBoth("cuMemAlloc_v2", uint64(size))
		_, second := w.callBoth("cuMemAlloc_v2", uint64(size))
		return w, u64(first), u64(second)
	}
	launch := func(w *twin, exec uint64) int32 {
		w.postBoth("graph_launch", exec, uint64(0))
		r, _ := w.callBoth("cuCtxSynchronize")
		return r
	}
	type made func(w *twin, a, b uint64) (graph, exec uint64)
	for name, instantiate := range map[string]made{
		"memset": func(w *twin, a, _ uint64) (graph, exec uint64) {
			return w.makeExecutable("cuMemsetD8Async", a, uint8(7), uint64(100), uint64(0))
		},
		"copied from": func(w *twin, a, b uint64) (graph, exec uint64) {
			return w.makeExecutable("cuMemcpyDtoDAsync_v2", b, a, uint64(100), uint64(0))
		},
		"copied to": func(w *twin, a, b uint64) (graph, exec uint64) {
			return w.makeExecutable("cuMemcpyDtoDAsync_v2", a, b, uint64(100), uint64(0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Run("it is gone", func(t *testing.T) {
				w, a, b := begin(t)
				_, exec := instantiate(w, a, b)
				w.callBoth("cuMemFree_v2", a)
				w.moveRun()
				w.moveRun()
				if r := launch(w, exec); r != int32(dispatch.ResultIllegalAddress) {
					t.Errorf("a launch: %d", r)
				}
			})
			t.Run("it is another's", func(t *testing.T) {
				w, a, b := begin(t)
				_, exec := instantiate(w, a, b)
				w.callBoth("cuMemFree_v2", a)
				w.moveRun()
				if _, out := w.callBoth("cuMemAlloc_v2", uint64(size)); u64(out) != a {
					t.Fatalf("memory at %#x, not %#x", u64(out), a)
				}
				w.callBoth("cuMemsetD8_v2", b, uint8(5), uint64(200))
				if r := launch(w, exec); r != 0 {
					t.Errorf("a launch: %d", r)
				}
				w.callBoth("copy_out", a, uint64(200), uint64(0))
				w.callBoth("copy_out", b, uint64(200), uint64(0))
			})
			t.Run("new ones are refused", func(t *testing.T) {
				w, a, b := begin(t)
				graph, _ := instantiate(w, a, b)
				w.callBoth("cuMemFree_v2", a)
				w.moveRun()
				if r, _ := w.callBoth("graph_instantiate", graph, paramsWithFlags(0), uint32(256)); r != invalidValue {
					t.Errorf("a second instantiation: %d", r)
				}
			})
			t.Run("a peer's", func(t *testing.T) {
				w, _, b := begin(t)
				w.c[0].context = ctxB
				_, out := w.callBoth("cuMemAlloc_v2", uint64(size))
				a := u64(out)
				w.c[0].context = ctxA
				w.callBoth("cuCtxEnablePeerAccess", uint64(ctxB), uint32(0))
				_, exec := instantiate(w, a, b)
				w.callBoth("cuCtxDisablePeerAccess", uint64(ctxB))
				w.moveRun()
				w.callBoth("cuCtxEnablePeerAccess", uint64(ctxB), uint32(0))
				if r := launch(w, exec); r != 0 {
					t.Errorf("a launch: %d", r)
				}
				w.callBoth("copy_out", a, uint64(200), uint64(0))
			})
		})
	}
}
