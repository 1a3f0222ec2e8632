// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/tests/device/soft"
)

// TestProducts: the software GPU computes the products of a program that calls cuBLAS, if the user wants that: alone, captured, in
// batches, and also while the device server is saved, killed and replaced, with products queued. What is not covered goes to
// cuBLAS, and everything does where the user has not chosen.
func TestProducts(t *testing.T) {
	w, dir := soft.Need(t), t.TempDir()
	library := filepath.Join(dir, "libcublas.so.12")
	if err := w.Command(w.CC, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-Wl,-soname,libcublas.so.12",
		"-o", library, "tests/device/testdata/products/library.c"); err != nil {
		t.Fatal(err)
	}
	program := w.Compile(t, "testdata/products/program.c", library, "-Wl,-rpath,"+dir, "-lm")
	t.Run("vendor", func(t *testing.T) {
		r := w.Run(t, soft.Program{Path: program, Devices: 1, Env: []string{wire.BlasEnv + "=" + wire.BlasVendor}, Limit: 2 * time.Minute})
		if r.Exit != 1 || !strings.HasPrefix(r.Stdout, "a captured product: element 0 is 0x0p+0, not") {
			t.Errorf("exit code %d, output\n%s\n%s", r.Exit, r.Stdout, r.Stderr)
		}
	})
	t.Setenv(wire.BlasEnv, wire.BlasNative)
	t.Run("native", func(t *testing.T) {
		r := w.Run(t, soft.Program{Path: program, Devices: 1, Limit: 2 * time.Minute})
		if r.Exit != 0 || !strings.HasSuffix(r.Stdout, "\n2 products of the vendor's\n") {
			t.Errorf("exit code %d, output\n%s\n%s", r.Exit, r.Stdout, r.Stderr)
		}
		const said = "cuBLAS: matrix products are computed by the software GPU"
		if strings.Count(r.Stderr, said) != 1 {
			t.Errorf("it does not say once that %q: %s", said, r.Stderr)
		}
	})
	t.Run("replaced", func(t *testing.T) { runWhileReplaced(t, w, program) })
}
