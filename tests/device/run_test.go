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

	"github.com/singularity-slurm/singularity-slurm/tests/device/soft"
)

func TestMain(m *testing.M) { soft.Main(m) }

// check compares what a program did with what it should.
func (p *program) check(t *testing.T, r soft.Result) {
	t.Helper()
	if r.Exit != p.exit {
		t.Errorf("it ended with %d, not %d", r.Exit, p.exit)
	}
	if want := strings.Join(p.expect, "\n") + "\n"; p.expect != nil && r.Stdout != want {
		t.Errorf("it printed\n%s, not\n%s", r.Stdout, want)
	}
	for _, s := range p.says {
		if !strings.Contains(r.Stderr, s) {
			t.Errorf("it does not say %q", s)
		}
	}
	if t.Failed() {
		t.Logf("stdout:\n%s\nstderr:\n%s", r.Stdout, r.Stderr)
	}
}

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
			p, err := parseProgram(text)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case p.slow != "" && testing.Short():
				t.Skip("slow: " + p.slow)
			case p.broken != "":
				t.Skip("broken: " + p.broken)
			}
			w := soft.Need(t)
			p.check(t, w.Run(t, soft.Program{
				Devices: p.devices, Path: w.Compile(t, file, p.cflags...), Args: p.args, Env: p.env, Stdin: strings.NewReader(p.stdin), Limit: p.limit,
			}))
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
