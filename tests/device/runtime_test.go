// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/tests/device/soft"
)

// TestRuntime: the vendor's own runtime library and compiler, as Debian has them, work on the software GPU.
func TestRuntime(t *testing.T) {
	w := soft.Need(t)
	var said strings.Builder
	fetch := exec.Command("../../contrib/cudart")
	fetch.Stderr = &said
	out, err := fetch.Output()
	if err != nil {
		t.Skip("SKIP: ", err, ": ", said.String())
	}
	libraries := strings.TrimSpace(string(out))
	program := w.Compile(t, "testdata/runtime/saxpy.c", "-L"+libraries, "-l:libcudart.so.12", "-l:libnvrtc.so.12")
	r := w.Run(t, soft.Program{Path: program, Devices: 2, Limit: time.Minute, Env: []string{"LD_LIBRARY_PATH=" + libraries}})
	const want = "2 devices of capability 10\nlaunched by the driver\nlaunched by the runtime\n"
	if r.Exit != 0 || r.Stdout != want {
		t.Errorf("exit code %d\n%s%s", r.Exit, r.Stdout, r.Stderr)
	}
}

// TestRuntimeManaged: a program with variables that are declared __managed__, which nvcc has compiled.
func TestRuntimeManaged(t *testing.T) {
	if testing.Short() {
		t.Skip("nvcc and its headers, of several hundred MB, are fetched")
	}
	w := soft.Need(t)
	program := filepath.Join(t.TempDir(), "managed")
	compile := exec.Command(filepath.Join(w.Fetch(t, "toolkit"), "cuda/bin/nvcc"), "-gencode", "arch=compute_80,code=compute_80",
		"-o", program, "testdata/runtime/managed.cu")
	compile.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r := w.Run(t, soft.Program{Path: program, Devices: 2, Limit: time.Minute})
	const want = "device 0: 2 1 50 7 41\ndevice 1: 4 2 150 14 42\nmanaged\n28\n"
	if r.Exit != 0 || r.Stdout != want {
		t.Errorf("exit code %d\n%s%s", r.Exit, r.Stdout, r.Stderr)
	}
}
