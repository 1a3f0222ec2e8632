// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"context"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/backendtest"
)

// TestLaunchAllocates: a launch of a kernel that calls no functions of its launcher makes few objects, from the call to the
// end of the work.
func TestLaunchAllocates(t *testing.T) {
	x := newBench(t)
	m, _, err := x.cu.Load([]byte(backendtest.Kernels), backend.LoadConfig{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := m.Function("limited")
	if err != nil {
		t.Fatal(err)
	}
	one := backend.Dim{X: 1, Y: 1, Z: 1}
	const launches = 1000
	each := testing.AllocsPerRun(5, func() {
		for range launches {
			if err := x.stream.Launch(backend.Launch{Function: f, Grid: one, Block: one}); err != nil {
				t.Fatal(err)
			}
		}
		if err := x.stream.Synchronize(context.Background()); err != nil {
			t.Fatal(err)
		}
	}) / launches
	if each > 20 { // of which a race detector makes more
		t.Errorf("a launch makes %.1f objects, want at most 20", each)
	}
}
