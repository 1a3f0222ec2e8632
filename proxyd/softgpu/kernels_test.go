// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx"
)

// TestKernels: a backend says how it executes kernels, and why it interprets them.
func TestKernels(t *testing.T) {
	for _, interpret := range []bool{false, true} {
		b, err := New(Config{Memory: []uint64{64 << 20}, Interpret: interpret})
		if err != nil {
			t.Fatal(err)
		}
		want := CompiledKernels
		if interpret {
			want = InterpretedKernels + ": as asked for"
		} else if err := ptx.Native(); err != nil {
			want = InterpretedKernels + ": " + err.Error()
		}
		if got := b.Kernels(); got != want || strings.Contains(got, "\n") {
			t.Errorf("interpret %v: %q, want %q", interpret, got, want)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}
