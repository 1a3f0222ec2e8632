// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/api/apitest"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// uploadingConductor has a checkpoint on its way from n2 to the store, until the list is asked for a second time; a
// checkpoint of another node, and a lost checkpoint of n2, stay on their way for ever.
type uploadingConductor struct {
	*apitest.Conductor
	asked atomic.Int32
}

func (c *uploadingConductor) Checkpoints(context.Context, string) ([]*rpc.Checkpoint, error) {
	list := []*rpc.Checkpoint{
		{Id: "mini/814/2", Job: "814", Nodes: []string{"n1"}, State: "uploading"},
		{Id: "mini/815/1", Job: "815", Nodes: []string{"n2"}, State: "uploading", Problem: "lost: n2 has no share"},
	}
	if c.asked.Add(1) < 2 {
		list = append(list, &rpc.Checkpoint{Id: "mini/813/4", Job: "813", Nodes: []string{"n1", "n2"}, State: "uploading"})
	}
	return list, nil
}

// TestDrainWaitsForUploads: drain waits as long as a node has the only copy of a checkpoint.
func TestDrainWaitsForUploads(t *testing.T) {
	c := newCluster(t)
	conductor := &uploadingConductor{Conductor: apitest.New()}
	c.serveNode(t, "n3", "127.0.0.3:"+c.port, conductor)
	var out, errs bytes.Buffer
	app := c.newApp("root", &out, &errs)
	code := app.runCommand(t.Context(), []string{"drain", "n[2-3]", "--node", "n3"})
	if code != 0 || !strings.Contains(out.String(), "n2    drained  maintenance") {
		t.Errorf("drain: exit code %d\n%s%s", code, out.String(), errs.String())
	}
	if n := conductor.asked.Load(); n != 2 {
		t.Errorf("asked %d times for checkpoints, want 2", n)
	}
	if !strings.Contains(errs.String(), "waiting until the checkpoints of the nodes are in the store") {
		t.Errorf("progress:\n%s", errs.String())
	}
}
