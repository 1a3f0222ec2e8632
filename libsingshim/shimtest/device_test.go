// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package shimtest

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/api"
)

// TestSymbols: the library exports each call of the table, the intercepted functions of the C library, and no others.
func TestSymbols(t *testing.T) {
	f, err := elf.Open(buildLibrary(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			got = append(got, s.Name)
		}
	}
	table, err := api.Load()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"dlopen", "dlsym", "nvrtcCompileProgram", "nvrtcGetCUBIN", "nvrtcGetCUBINSize"}
	want = slices.Concat(want, api.LiburingCalls, api.BlasCalls)
	for _, e := range table.Symbols() {
		want = append(want, e.Symbol)
	}
	for c := range table.Calls {
		if c.Area.Lib == api.LibC {
			want = append(want, c.Symbol)
		}
	}
	for _, call := range []string{"Create", "GetLinkedCubin", "GetLinkedCubinSize"} {
		for release := 0; release < 10; release++ { // of CUDA 12, and of 13 until now
			want = append(want, fmt.Sprintf("__nvJitLink%s_12_%d", call, release))
			if release < 5 {
				want = append(want, fmt.Sprintf("__nvJitLink%s_13_%d", call, release))
			}
		}
	}
	for _, s := range want {
		if !slices.Contains(got, s) {
			t.Errorf("the library does not export %s", s)
		}
	}
	for _, s := range got {
		if !slices.Contains(want, s) {
			t.Errorf("the library exports %s, which is not wanted", s)
		}
	}
}

var plain struct {
	once sync.Once
	dir  string
	err  error
}

// buildLibrary builds libsingshim-device.so alone, which needs no root, once, and returns its path.
func buildLibrary(t *testing.T) string {
	t.Helper()
	plain.once.Do(func() {
		if plain.dir, plain.err = os.MkdirTemp("", "shim-test-"); plain.err == nil {
			_, plain.err = runCommand("make", "-s", "-C", "..", "O="+plain.dir, "CFLAGS=-O0")
		}
	})
	if plain.err != nil {
		t.Fatalf("build libsingshim-device.so: %v", plain.err)
	}
	return filepath.Join(plain.dir, "libsingshim-device.so")
}

// TestOpenLibrary: with a device server each open of the driver gets the shim, on any path on which a process looks;
// without a device server, each open has the same result as without the shim.
func TestOpenLibrary(t *testing.T) {
	shim := buildLibrary(t)
	program := filepath.Join(t.TempDir(), "library")
	if _, err := runCommand("cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-o", program, "testdata/library.c", "-ldl"); err != nil {
		t.Fatal(err)
	}
	names := []string{"libcuda.so.1", "/usr/lib/none/libcuda.so.1", "/none/libnccl.so.2", "libnvidia-ml.so.1", "libm.so.6"}
	before := runLibrary(t, program, nil, names)
	for _, c := range []struct {
		name, server string
		want         []string
	}{
		{"no server", "", before},
		{"a server", "/none/device", []string{
			before[0], "libcuda.so.1: libsingshim-device.so, cuInit 802", "/usr/lib/none/libcuda.so.1: libsingshim-device.so, cuInit 802",
			"/none/libnccl.so.2: libsingshim-device.so, cuInit 802", "libnvidia-ml.so.1: libsingshim-device.so, cuInit 802", "libm.so.6: no cuInit",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := runLibrary(t, program, []string{"LD_PRELOAD=" + shim, "SINGULARITY_SLURM_DEVICE=" + c.server}, names)
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func runLibrary(t *testing.T, program string, env, names []string) []string {
	t.Helper()
	cmd := exec.Command(program, names...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}
