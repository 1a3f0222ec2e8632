// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"errors"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// TestHandlers: a node carries out each call, by a single function.
func TestHandlers(t *testing.T) {
	messages := (&rpc.CallRequest{}).ProtoReflect().Descriptor().Oneofs().ByName("call").Fields()
	ofNode, ofJob := makeNodeHandlers(), makeJobHandlers()
	for i := range messages.Len() {
		name := string(messages.Get(i).Name())
		if (ofNode[name] == nil) == (ofJob[name] == nil) {
			t.Errorf("call %s: of the node: %t, of a job: %t; want one", name, ofNode[name] != nil, ofJob[name] != nil)
		}
	}
	if got, want := len(ofNode)+len(ofJob), messages.Len(); got != want {
		t.Errorf("%d functions carry out calls, and proxyd.proto has messages of %d calls", got, want)
	}
}

// TestCallKinds: the error of a call says whether the reason ends by itself, whatever else the error is.
func TestCallKinds(t *testing.T) {
	c := conductorOn(t, "n1", t.TempDir())
	j := (&job{c: c, id: 7, run: runOf(0, recordOf(7)), log: c.Log}).linkPartsToJob()
	if err := j.run.EnterState(runs.GivenUp); err != nil {
		t.Fatal(err)
	}
	c.jobs.addJob(j)
	for _, tt := range []struct {
		name, job   string
		kind, other error
	}{
		{"the node has no part of the job", "8", rpc.ErrTransient, rpc.ErrNotHere},
		{"the run is given up", "7", rpc.ErrLasting, rpc.ErrGivenUp},
	} {
		req := calls.Unlock.EncodeArgs(calls.Empty{})
		req.Job = tt.job
		if _, err := c.Call(t.Context(), req); !errors.Is(err, tt.kind) || !errors.Is(err, tt.other) {
			t.Errorf("%s: %v; want %v and %v", tt.name, err, tt.kind, tt.other)
		}
	}
}
