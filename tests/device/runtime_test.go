// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"os/exec"
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
