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

// TestRunCuda runs a program over the devices of a fake driver, which is compiled for the test.
func TestRunCuda(t *testing.T) {
	lib := makeShim(t)
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
			cmd := newProxyd(t, "run", "--cuda", "--shim", lib, "--", "sh", "-c", "echo hello")
			cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+tt.path)
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			_ = cmd.Run() // the exit code shows whether the run succeeded
			if code := cmd.ProcessState.ExitCode(); code != tt.code || out.String() != tt.out || !strings.HasPrefix(errs.String(), tt.err) {
				t.Errorf("exit %d, want %d\n%s\n%s", code, tt.code, out.String(), errs.String())
			}
		})
	}
}

// TestBecomeCuda: a device server with real devices becomes its user like any other, though it has code in C. It then fails, for there is no
// driver.
func TestBecomeCuda(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: it becomes a user")
	}
	theirs, gate, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	cmd := newProxyd(t, "device", "--kind", "cuda", "--gate", "3", "--socket", filepath.Join(t.TempDir(), "device"))
	cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+t.TempDir())
	cmd.ExtraFiles = []*os.File{theirs}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	if _, err := gate.WriteString(`{"uid":12345,"gid":12346,"groups":[12346],"oom":0}`); err != nil {
		t.Fatal(err)
	}
	gate.Close()
	_ = cmd.Wait() // the test looks at the output
	if !strings.HasPrefix(errs.String(), "proxyd: real devices: no CUDA driver") {
		t.Errorf("proxyd-cuda printed %q, want that there is no CUDA driver", errs.String())
	}
}
