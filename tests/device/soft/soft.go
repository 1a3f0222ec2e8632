// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package soft builds what a program needs to run on the software GPU, and runs it there: for tests.
package soft

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// World is a folder with proxyd, libsingshim-device.so, and stubs of the vendor's libraries to link programs with.
type World struct {
	Dir  string
	CC   string
	root string
}

// ErrTool says that the machine lacks a compiler.
var ErrTool = errors.New("there is no C compiler, or no make")

// build is done once in a process: the folder is made by the first test that asks.
var build = sync.OnceValues(func() (*World, error) {
	root, err := treeRoot()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "soft")
	if err != nil {
		return nil, err
	}
	made = dir
	w := &World{Dir: dir, root: root}
	return w, w.build()
})

// made is the folder, once a test has asked.
var made string

// Main runs a package's tests and removes what Need made: call it in TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if err := os.RemoveAll(made); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// Need returns what programs run with. It skips the test where nothing can run, and fails it where it should.
func Need(t testing.TB) *World {
	t.Helper()
	w, err := build()
	switch {
	case errors.Is(err, ErrTool):
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	return w
}

// treeRoot is the folder of go.mod, above that of the test.
func treeRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		dir = filepath.Dir(dir)
	}
	return "", fmt.Errorf("no go.mod above the test: %w", err)
}

func (w *World) build() error {
	w.CC, _ = exec.LookPath("cc")
	if tool, _ := exec.LookPath("make"); w.CC == "" || tool == "" {
		return ErrTool
	}
	if err := w.Command("make", "-s", "B="+w.Dir, filepath.Join(w.Dir, "proxyd")); err != nil {
		return err
	}
	if err := w.Command("make", "-s", "-C", "libsingshim", "O="+w.Dir); err != nil {
		return err
	}
	for name, soname := range map[string]string{"cuda": "libcuda.so.1", "nccl": "libnccl.so.2", "nvml": "libnvidia-ml.so.1"} {
		err := w.Command(w.CC, "-shared", "-fPIC", "-Wl,-soname,"+soname, "-o", filepath.Join(w.Dir, "lib"+name+".so"),
			"tests/device/include/gen_stub_"+name+".c")
		if err != nil {
			return err
		}
	}
	return nil
}

// Command runs a command in the tree's root; its output is in the error.
func (w *World) Command(name string, args ...string) error {
	c := exec.Command(name, args...)
	c.Dir = w.root
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// Compile makes a program of a C file, with the headers of tests/device/include, and returns its path.
func (w *World) Compile(t testing.TB, file string, flags ...string) string {
	t.Helper()
	file, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), strings.TrimSuffix(filepath.Base(file), ".c"))
	args := append([]string{"-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-pthread", "-Itests/device/include", "-o", out, file}, flags...)
	args = append(args, "-L"+w.Dir, "-Wl,--as-needed", "-lcuda", "-lnccl", "-lnvml", "-ldl", "-lm")
	if err := w.Command(w.CC, args...); err != nil {
		t.Fatal(err)
	}
	return out
}

// Program is a run of a program.
type Program struct {
	Devices int
	On      []string // more flags of "proxyd run": how they share others
	Path    string
	Args    []string
	Env     []string // beside the test's own
	Stdin   io.Reader
	Limit   time.Duration // it fails when it takes longer
}

// Result is how a program ended.
type Result struct {
	Stdout, Stderr string
	Exit           int
}

// Run runs a program on the software GPU. The whole process group is gone when it returns.
func (w *World) Run(t testing.TB, p Program) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), p.Limit)
	defer cancel()
	args := append([]string{"run", "--soft", fmt.Sprint(p.Devices)}, p.On...)
	args = append(append(args, "--", p.Path), p.Args...)
	c := exec.CommandContext(ctx, filepath.Join(w.Dir, "proxyd"), args...)
	c.Env = append(os.Environ(), p.Env...)
	c.Stdin = p.Stdin
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 5 * time.Second
	err := c.Run()
	var ended *exec.ExitError
	switch {
	case ctx.Err() != nil:
		t.Fatalf("it did not end within %s\nstdout:\n%s\nstderr:\n%s", p.Limit, &stdout, &stderr)
	case err != nil && !errors.As(err, &ended):
		t.Fatal(err)
	}
	return Result{stdout.String(), stderr.String(), c.ProcessState.ExitCode()}
}
