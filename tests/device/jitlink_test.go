// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/tests/device/soft"
)

// TestJitLink: a program that links intermediate code by nvJitLink for a software GPU gets PTX for machine code, of an
// architecture that nvJitLink knows, and nvJitLink does not ask the driver to link. Else nvJitLink works as without us.
func TestJitLink(t *testing.T) {
	w, dir := soft.Need(t), t.TempDir()
	library := filepath.Join(dir, "libnvJitLink.so.12")
	if err := w.Command(w.CC, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-Wl,-soname,libnvJitLink.so.12",
		"-o", library, "tests/device/testdata/jitlink/library.c", "-ldl"); err != nil {
		t.Fatal(err)
	}
	want := "-lto -arch=sm_100: 0, PTX of sm_90 and a NUL\n" +
		"-lto -arch=sm_80: 0, PTX of sm_80 and a NUL\n" +
		"-arch=sm_80: 0, machine code of sm_80\n" +
		"-arch=sm_100: 5, \n"
	for name, flags := range map[string][]string{"linked": {library, "-Wl,-rpath," + dir}, "found": {"-DFOUND"}} {
		t.Run(name, func(t *testing.T) {
			program := w.Compile(t, "testdata/jitlink/program.c", flags...)
			r := w.Run(t, soft.Program{Path: program, Args: []string{"-lto -arch=sm_100", "-lto -arch=sm_80", "-arch=sm_80", "-arch=sm_100"},
				Env: []string{"LD_LIBRARY_PATH=" + dir}, Devices: 1, Limit: 2 * time.Minute})
			if r.Exit != 0 || r.Stdout != want {
				t.Errorf("exit code %d, output\n%q\nwant\n%q\n%s", r.Exit, r.Stdout, want, r.Stderr)
			}
		})
	}
}
