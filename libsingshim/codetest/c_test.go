// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package codetest holds tests of the shim's C code for kernels' code that programs load and launch.
package codetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/tests/compiled"
)

// compileProgram makes a program of testdata and files of the shim, under sanitizers.
func compileProgram(t testing.TB, name string, parts ...string) string {
	t.Helper()
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	if _, err := exec.LookPath(cc); err != nil {
		t.Skip("SKIP: no C compiler")
	}
	const shim = "../shim/device"
	folder := t.TempDir()
	out := filepath.Join(folder, name)
	command := []string{cc, "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-I" + shim}
	command = append(command, "-o", out, filepath.Join("testdata", name+".c"))
	for _, p := range parts {
		command = append(command, filepath.Join(shim, p))
	}
	if err := compiled.MakeFiles(folder, []string{name}, command...); err != nil {
		t.Fatalf("compile %s: %v", name, err)
	}
	return out
}

// setSanitizer keeps the sanitizer from looking for leaks, which not every host allows.
func setSanitizer(cmd *exec.Cmd) *exec.Cmd {
	cmd.Env = append(os.Environ(), "ASAN_OPTIONS=detect_leaks=0")
	return cmd
}

// TestParts: each program of testdata tries a part of the shim and names the line that is wrong.
func TestParts(t *testing.T) {
	for _, tc := range []struct {
		name  string
		parts []string
	}{
		{"jit", []string{"jit.c"}},
		{"launch", []string{"function.c", "launch.c"}},
		{"tensor", []string{"tensor.c"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if out, err := setSanitizer(exec.Command(compileProgram(t, tc.name, tc.parts...))).CombinedOutput(); err != nil {
				t.Fatalf("testdata/%s.c, a line that is one less than the status, modulo 250: %v\n%s", tc.name, err, out)
			}
		})
	}
}
