// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/tests/device/soft"
)

// TestProducts: the software GPU computes the products of a program that calls cuBLAS, if the user wants that: alone, captured, in
// batches, and also while the device server is saved, killed and replaced, with products queued. Products that are not
// covered go to cuBLAS, as do all products where the user has not chosen the software GPU.
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
	t.Run("misspelt", func(t *testing.T) {
		r := w.Run(t, soft.Program{Path: program, Devices: 1, Env: []string{wire.BlasEnv + "=nativ"}, Limit: 2 * time.Minute})
		if said := "SINGULARITY_SLURM_BLAS is nativ, which is neither native nor vendor"; strings.Count(r.Stderr, said) != 1 {
			t.Errorf("the program printed %q %d times, want once: %s", said, strings.Count(r.Stderr, said), r.Stderr)
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
			t.Errorf("the program printed %q %d times, want once: %s", said, strings.Count(r.Stderr, said), r.Stderr)
		}
	})
	t.Run("replaced", func(t *testing.T) { runWhileReplaced(t, w, program) })
}

// TestReleasesOfBlas: libraries of a program that each have a cuBLAS of their own reach their own, under any file name,
// as without us: also a library that needs the driver, which is the shim, before cuBLAS.
func TestReleasesOfBlas(t *testing.T) {
	w, dir := soft.Need(t), t.TempDir()
	makePlugin := func(release int, name string, flags ...string) string {
		shared := []string{"-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"}
		library, plugin := filepath.Join(dir, name), filepath.Join(dir, fmt.Sprintf("plugin%d.so", release))
		args := append(slices.Clone(shared), "-Wl,-soname,"+name, fmt.Sprintf("-DRELEASE=%d", release), "-o", library, "tests/device/testdata/products/release.c")
		if err := w.Command(w.CC, args...); err != nil {
			t.Fatal(err)
		}
		args = append(slices.Clone(shared), "-o", plugin, "tests/device/testdata/products/plugin.c", "-Wl,-rpath,"+dir)
		if err := w.Command(w.CC, append(append(args, flags...), library)...); err != nil {
			t.Fatal(err)
		}
		return plugin
	}
	program := w.Compile(t, "testdata/products/releases.c")
	for _, tt := range []struct {
		name    string
		plugins []string
		want    string
	}{
		{"two", []string{makePlugin(111, "libcublas.so.11"), makePlugin(112, "libcublas-3fa9c1d2.so.12")}, "111\n112\n"},
		{"after the driver", []string{makePlugin(113, "libcublas.so.13", "-L"+w.Dir, "-Wl,--no-as-needed", "-lcuda")}, "113\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := w.Run(t, soft.Program{Path: program, Args: tt.plugins, Devices: 1, Limit: 2 * time.Minute})
			if r.Exit != 0 || r.Stdout != tt.want {
				t.Errorf("exit code %d, output\n%s\nwant\n%s\n%s", r.Exit, r.Stdout, tt.want, r.Stderr)
			}
		})
	}
}
