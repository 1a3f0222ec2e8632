// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// source is the root of the tree.
const source = "../.."

// world is what programs are run with, made once.
type world struct {
	dir     string // proxyd, libsingshim.so and the stubs
	cc      string
	skip    string // why nothing can be run here
	failure error
}

var theWorld = sync.OnceValue(func() *world {
	w := &world{}
	w.failure = w.build()
	return w
})

// dir is removed when all tests are over.
var dir string

func TestMain(m *testing.M) {
	var err error
	if dir, err = os.MkdirTemp("", "device"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// need returns the world, or skips the test.
func need(t *testing.T) *world {
	t.Helper()
	w := theWorld()
	if w.failure != nil {
		t.Fatal(w.failure)
	}
	if w.skip != "" {
		t.Skip(w.skip)
	}
	return w
}

func (w *world) build() error {
	w.dir = dir
	w.cc, _ = exec.LookPath("cc")
	if tool, _ := exec.LookPath("make"); w.cc == "" || tool == "" {
		w.skip = "there is no C compiler, or no make"
		return nil
	}
	if err := command(source, "make", "-s", "B="+dir, filepath.Join(dir, "proxyd")); err != nil {
		return err
	}
	if err := command(source, "make", "-s", "-C", "libsingshim", "O="+dir); err != nil {
		return err
	}
	if err := w.stubs(); err != nil {
		return err
	}
	var err error
	w.skip, err = w.missing()
	return err
}

// stubs makes what programs are linked with.
func (w *world) stubs() error {
	for name, soname := range map[string]string{"cuda": "libcuda.so.1", "nccl": "libnccl.so.2", "nvml": "libnvidia-ml.so.1"} {
		err := command(".", w.cc, "-shared", "-fPIC", "-Wl,-soname,"+soname, "-o", filepath.Join(w.dir, "lib"+name+".so"),
			"include/gen_stub_"+name+".c")
		if err != nil {
			return err
		}
	}
	return nil
}

// missing says which piece there is not yet. TODO: fail instead of skipping once all are there.
func (w *world) missing() (string, error) {
	out, err := exec.Command(filepath.Join(w.dir, "proxyd"), "--help").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("proxyd --help: %w: %s", err, out)
	}
	if !strings.Contains(string(out), "\n  run ") {
		return "proxyd has no command run yet", nil
	}
	lib, err := elf.Open(filepath.Join(w.dir, "libsingshim.so"))
	if err != nil {
		return "", err
	}
	defer lib.Close()
	symbols, err := lib.DynamicSymbols()
	if err != nil {
		return "", err
	}
	if !slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == "cuInit" && s.Section != elf.SHN_UNDEF }) {
		return "libsingshim.so has no device half yet", nil
	}
	return "", nil
}

func command(dir, name string, args ...string) error {
	c := exec.Command(name, args...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// compile makes a program of a C file.
func (w *world) compile(t *testing.T, file string, flags ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), strings.TrimSuffix(filepath.Base(file), ".c"))
	args := []string{"-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-pthread", "-Iinclude", "-Itestdata", "-o", out, file}
	args = append(args, flags...)
	args = append(args, "-L"+w.dir, "-Wl,--as-needed", "-lcuda", "-lnccl", "-lnvml", "-ldl", "-lm")
	if err := command(".", w.cc, args...); err != nil {
		t.Fatal(err)
	}
	return out
}

// result is how a program ended.
type result struct {
	stdout, stderr string
	exit           int
}

// run runs a program on the software GPU. The whole process group ends with it.
func (w *world) run(t *testing.T, p *program, path string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), p.limit)
	defer cancel()
	args := append([]string{"run", "--soft", fmt.Sprint(p.devices), "--", path}, p.args...)
	c := exec.CommandContext(ctx, filepath.Join(w.dir, "proxyd"), args...)
	c.Env = append(os.Environ(), p.env...)
	c.Stdin = strings.NewReader(p.stdin)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 5 * time.Second
	err := c.Run()
	var ended *exec.ExitError
	if ctx.Err() != nil {
		t.Fatalf("it did not end within %s\nstdout:\n%s\nstderr:\n%s", p.limit, &stdout, &stderr)
	}
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return result{stdout.String(), stderr.String(), c.ProcessState.ExitCode()}
}

// check compares what a program did with what it should.
func (p *program) check(t *testing.T, r result) {
	t.Helper()
	if r.exit != p.exit {
		t.Errorf("it ended with %d, not %d", r.exit, p.exit)
	}
	if want := strings.Join(p.expect, "\n") + "\n"; p.expect != nil && r.stdout != want {
		t.Errorf("it printed\n%s, not\n%s", r.stdout, want)
	}
	for _, s := range p.says {
		if !strings.Contains(r.stderr, s) {
			t.Errorf("it does not say %q", s)
		}
	}
	if t.Failed() {
		t.Logf("stdout:\n%s\nstderr:\n%s", r.stdout, r.stderr)
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
			w := need(t)
			p.check(t, w.run(t, p, w.compile(t, file, p.cflags...)))
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
		err := command(".", cc, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Iinclude", "-Itestdata", "-fsyntax-only", "-x", "c", file)
		if err != nil {
			t.Error(err)
		}
	}
}
