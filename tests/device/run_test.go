// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/tests/device/program"
	"github.com/singularity-slurm/singularity-slurm/tests/device/soft"
)

func TestMain(m *testing.M) { soft.Main(m) }

// TestPrograms runs each program of testdata.
func TestPrograms(t *testing.T) {
	files, err := filepath.Glob("testdata/*.c")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".c")
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p, err := program.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case p.Slow != "" && testing.Short():
				t.Skip("slow: " + p.Slow)
			case p.Broken != "":
				t.Skip("broken: " + p.Broken)
			}
			w := soft.Need(t)
			got := w.Run(t, soft.Program{
				Devices: p.Devices, Path: w.Compile(t, file, p.Cflags...), Args: p.Args, Env: p.Env, Stdin: strings.NewReader(p.Stdin), Limit: p.Limit,
			})
			if wrong := p.Judge(got.Stdout, got.Stderr, got.Exit); wrong != "" {
				t.Errorf("%s\nstdout:\n%s\nstderr:\n%s", wrong, got.Stdout, got.Stderr)
			}
		})
	}
}

// TestHeaders: each header can be included alone, and programs are compiled even where nothing can be run.
func TestHeaders(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("there is no C compiler: ", err)
	}
	headers, err := filepath.Glob("include/*.h")
	if err != nil || len(headers) == 0 {
		t.Fatal(headers, err)
	}
	programs, err := filepath.Glob("testdata/*.c")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range slices.Concat(headers, programs) {
		if filepath.Base(file) == "cuda_structs.h" {
			continue // a part of gen_cuda.h
		}
		out, err := exec.Command(cc, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Iinclude", "-fsyntax-only", "-x", "c", file).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
	}
}
