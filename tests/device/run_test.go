// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
	"github.com/singularity-slurm/singularity-slurm/tests/device/program"
	"github.com/singularity-slurm/singularity-slurm/tests/device/soft"
)

func TestMain(m *testing.M) { soft.Main(m) }

// TestPrograms runs each program of testdata.
func TestPrograms(t *testing.T) {
	for name, p := range listPrograms(t) {
		t.Run(name, func(t *testing.T) {
			if p.Misses == nil {
				p.runAndCheck(t)
				return
			}
			file := filepath.Join(t.TempDir(), "status")
			p.runAndCheck(t, "--status", file)
			if got := readStatus(t, file).Missed; !slices.Equal(got, p.Misses) {
				t.Errorf("the list of calls that are not covered is %q, want %q", got, p.Misses)
			}
		})
	}
}

// TestSharedDevices: a program of several devices prints the same on fewer, shared devices, by each way to share them,
// and kernels run once for several of its processes where the program's file says so.
func TestSharedDevices(t *testing.T) {
	for name, p := range listPrograms(t) {
		for on := 1; on < p.Devices; on++ {
			for _, rung := range []string{server.RungAlias, server.RungSplice} {
				t.Run(fmt.Sprintf("%s/%d/%s", name, on, rung), func(t *testing.T) {
					if testing.Short() && (on > 1 || rung != server.RungSplice) {
						t.Skip("in short, all share one device, and kernels may run once")
					}
					status := filepath.Join(t.TempDir(), "status")
					p.runAndCheck(t, "--on", fmt.Sprint(on), "--rung", rung, "--status", status)
					if p.Rung != "" && rung == server.RungSplice && !ranOnce(t, status) {
						t.Error("no kernel ran once for several processes")
					}
					for _, s := range readStatus(t, status).Sharing {
						if s.Once > 0 && s.Rung == "" {
							t.Errorf("the device has no rung: %+v", s)
						}
					}
				})
			}
		}
	}
}

// ranOnce tells whether a kernel has taken the result of another process's kernel.
func ranOnce(t *testing.T, status string) bool {
	t.Helper()
	return slices.ContainsFunc(readStatus(t, status).Sharing, func(s server.SharingStatus) bool { return s.Once > 0 })
}

// readStatus reads the status that a device server has written at its end.
func readStatus(t *testing.T, file string) (st server.Status) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &st); err != nil {
		t.Fatal(err)
	}
	return st
}

// testProgram is a program of testdata.
type testProgram struct {
	*program.Program
	file string
}

// listPrograms returns the programs of testdata by their names.
func listPrograms(t *testing.T) map[string]testProgram {
	t.Helper()
	files, err := filepath.Glob("testdata/*.c")
	if err != nil || len(files) == 0 {
		t.Fatalf("testdata/*.c: files %v: %v", files, err)
	}
	all := map[string]testProgram{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := program.Parse(text)
		if err != nil {
			t.Fatalf("the top of %s: %v", file, err)
		}
		all[strings.TrimSuffix(filepath.Base(file), ".c")] = testProgram{p, file}
	}
	return all
}

// runAndCheck runs a program, with more flags of "proxyd run", and checks the output and the exit.
func (p testProgram) runAndCheck(t *testing.T, flags ...string) {
	t.Helper()
	switch {
	case p.Slow != "" && testing.Short():
		t.Skip("slow: " + p.Slow)
	case p.Broken != "":
		t.Skip("broken: " + p.Broken)
	}
	w := soft.Need(t)
	got := w.Run(t, soft.Program{
		Devices: p.Devices, On: flags, Path: w.Compile(t, p.file, p.Cflags...), Args: p.Args, Env: p.Env, Stdin: strings.NewReader(p.Stdin), Limit: p.Limit,
	})
	if wrong := p.Judge(got.Stdout, got.Stderr, got.Exit); wrong != "" {
		t.Errorf("%s\nstdout:\n%s\nstderr:\n%s", wrong, got.Stdout, got.Stderr)
	}
}

// TestHeaders: each header can be included alone, and programs are compiled even where they cannot be run.
func TestHeaders(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("there is no C compiler: ", err)
	}
	headers, err := filepath.Glob("include/*.h")
	if err != nil || len(headers) == 0 {
		t.Fatalf("include/*.h: files %v: %v", headers, err)
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
			t.Errorf("%s does not compile: %v\n%s", file, err, out)
		}
	}
}
