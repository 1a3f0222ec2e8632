// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"log/slog"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu"
)

// TestStatusOfKernels: the status says how software GPUs execute kernels.
func TestStatusOfKernels(t *testing.T) {
	for _, interpret := range []bool{false, true} {
		b, err := softgpu.New(softgpu.Config{Memory: []uint64{testMemory}, Interpret: interpret})
		if err != nil {
			t.Fatal(err)
		}
		s := New(Config{Backend: b, Log: slog.New(slog.DiscardHandler)})
		if got := s.Status().Kernels; got == "" || got != b.Kernels() {
			t.Errorf("interpret %v: the status has %q, the devices say %q", interpret, got, b.Kernels())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
