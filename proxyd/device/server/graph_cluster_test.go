// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package server

import (
	"encoding/binary"
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/backendtest"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// clusterOf is the attribute of a launch in clusters of so many blocks.
func clusterOf(blocks uint64) dispatch.Launchattr {
	return dispatch.Launchattr{Id: int32(backend.AttributeClusterDimension), Value: dispatch.Launchvalue{Word: [8]uint64{1<<32 | blocks, 1}}}
}

// clusterRig is a graphRig over the fake driver, with devices that have clusters, and with the driver's log.
type clusterRig struct {
	graphRig
	log string
}

func newClusterRig(t *testing.T) (*clusterRig, func(order []int, exact bool) *Server, *Server) {
	server, log := realServer(t)
	s := server(nil, false)
	_, cs := attachProcess(t, s, 1)
	r := &clusterRig{graphRig{client: cs[0]}, log}
	r.beginContext(ctxA, 0)
	r.must("cuStreamCreate", uint64(streamA), uint32(0))
	r.a = r.alloc(256)
	out := r.must("module_load", []byte(backendtest.Kernels), uint64(len(backendtest.Kernels)), []byte{}, []byte{}, uint32(0), uint32(0), uint32(0))
	r.add = r.callForNumber("cuModuleGetFunction", binary.LittleEndian.Uint64(out[16:]), "add")
	r.must("cuGraphCreate", uint64(graphA), uint32(0))
	return r, server, s
}

// launchArgs are the arguments of launch_ex: add in a grid of blocks, with an attribute.
func (r *clusterRig) launchArgs(blocks uint32, v uint32, a dispatch.Launchattr) []any {
	p := r.argsOfAdd(r.a, v)
	return []any{r.add, blocks, uint32(1), uint32(1), uint32(1), uint32(1), uint32(1), uint32(0), uint64(streamA), p, uint32(len(p)), uint64(1), a, uint32(1)}
}

// attributesSet are the cluster dimensions that the driver was given for nodes of graphs since the log was read last.
func (r *clusterRig) attributesSet() []string {
	r.t.Helper()
	text, err := os.ReadFile(r.log)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := os.Truncate(r.log, 0); err != nil {
		r.t.Fatal(err)
	}
	var out []string
	for _, m := range regexp.MustCompile(`cuGraphKernelNodeSetAttribute\S* add 4=(\S+)`).FindAllSubmatch(text, -1) {
		out = append(out, string(m[1]))
	}
	return out
}

// clusterDimension is the cluster dimension of a node, as the program is told.
func (r *clusterRig) clusterDimension(node uint64) string {
	r.t.Helper()
	out := r.must("cuGraphKernelNodeGetAttribute", node, int32(backend.AttributeClusterDimension))
	return fmt.Sprintf("%x:%x", binary.LittleEndian.Uint64(out), binary.LittleEndian.Uint64(out[8:]))
}

// TestCapturedClusters: a launch in clusters that was captured stays one when the node's parameters are set, when its attributes are
// copied, and in a restored server.
func TestCapturedClusters(t *testing.T) {
	const two, four = "100000002:1", "100000004:1"
	r, server, s := newClusterRig(t)
	r.checkCaptured(ok, nodeA, graphA, nil, 0, "launch_ex", r.launchArgs(8, 1, clusterOf(2))...)
	if got := r.clusterDimension(nodeA); got != two {
		t.Errorf("the captured node has %s, want %s", got, two)
	}
	wantSet := func(what string, want ...string) {
		t.Helper()
		r.attributesSet()
		r.launchGraph(r.instantiateGraph(graphA))
		if got := r.attributesSet(); !slices.Equal(got, want) {
			t.Errorf("%s: the driver was given %v, want %v", what, got, want)
		}
	}
	wantSet("captured", two)

	shape := r.encodeShape(r.a, 5)
	shape[3] = uint32(4) // blocks
	r.must("graph_set_kernel", joinLists([]any{uint64(nodeA)}, shape)...)
	if got := r.clusterDimension(nodeA); got != two {
		t.Errorf("with other parameters the node has %s, want %s", got, two)
	}
	wantSet("other parameters", two)

	// Attributes set afterwards count, for this node alone.
	r.addKernel(nodeA+1, r.a, 1, nodeA)
	r.must("cuGraphKernelNodeCopyAttributes", uint64(nodeA+1), uint64(nodeA))
	r.must("cuGraphKernelNodeSetAttribute", uint64(nodeA), clusterOf(4).Id, clusterOf(4).Value)
	r.must("graph_set_kernel", joinLists([]any{uint64(nodeA)}, shape)...)
	if a, b := r.clusterDimension(nodeA), r.clusterDimension(nodeA+1); a != four || b != two {
		t.Errorf("the nodes have %s and %s, want %s and %s", a, b, four, two)
	}
	wantSet("set afterwards", four, two)

	folder := Folder(t.TempDir())
	replacedBy(t, s, saveJob(t, s, folder, SaveOptions{}), folder, func() *Server { return server(nil, false) })
	wantSet("restored", four, two)
	if a, b := r.clusterDimension(nodeA), r.clusterDimension(nodeA+1); a != four || b != two {
		t.Errorf("restored nodes have %s and %s, want %s and %s", a, b, four, two)
	}
}
