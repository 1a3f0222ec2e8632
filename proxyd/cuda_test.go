// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/fakecuda"
)

// TestRunCuda runs a program over the devices of a driver: one in C that this machine has for the occasion.
func TestRunCuda(t *testing.T) {
	lib := shim(t)
	folder := t.TempDir()
	l, err := fakecuda.Build(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(l.Path, filepath.Join(folder, "libcuda.so.1")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, path string
		code       int
		out, err   string
	}{
		{"a driver", folder, 0, "hello\n", ""},
		{"no driver", t.TempDir(), 1, "", "proxyd: real devices: no CUDA driver: libcuda.so.1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := proxyd(t, "run", "--cuda", "--shim", lib, "--", "sh", "-c", "echo hello")
			cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+tt.path)
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			_ = cmd.Run() // the exit code says it
			if code := cmd.ProcessState.ExitCode(); code != tt.code || out.String() != tt.out || !strings.HasPrefix(errs.String(), tt.err) {
				t.Errorf("exit %d, want %d\n%s\n%s", code, tt.code, out.String(), errs.String())
			}
		})
	}
}
