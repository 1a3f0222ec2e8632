// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package soft builds the libraries and servers that a program needs on the software GPU, and runs the program there,
// for tests.
package soft

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// World is a folder with proxyd, libsingshim-device.so, and stubs of the vendor's libraries to link programs
// with.
type World struct {
	Dir  string
	CC   string
	root string
}

// ErrTool says that the machine lacks a compiler.
var ErrTool = errors.New("there is no C compiler, or no make")

// build builds the folder once in a process, for the first test that calls Need.
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
	return w, w.buildWorld()
})

// made is the path of the built folder; "" until a test has called Need.
var made string

// Main runs a package's tests and removes the folder that Need made: call Main in TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if err := os.RemoveAll(made); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// Need returns the folder with which programs run. Need skips the test on a machine that cannot build the
// folder, and fails the test on a machine that should be able to.
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

// treeRoot returns the folder of go.mod, above the folder of the test.
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

func (w *World) buildWorld() error {
	w.CC, _ = exec.LookPath("cc")
	if tool, _ := exec.LookPath("make"); w.CC == "" || tool == "" {
		return ErrTool
	}
	if err := w.buildShared(filepath.Join(w.root, "bin", "soft")); err != nil {
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

// buildShared builds proxyd and the libraries in a folder of the tree, where only the first of several packages compiles, and
// copies them: users of tests may not enter the tree. A tree of another user's is left as it is.
func (w *World) buildShared(folder string) error {
	err := os.MkdirAll(folder, 0o755)
	var lock *os.File
	if err == nil {
		lock, err = os.OpenFile(filepath.Join(folder, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	}
	if errors.Is(err, fs.ErrPermission) {
		return w.buildTools(w.Dir)
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	if err := w.buildTools(folder); err != nil {
		return err
	}
	for _, name := range []string{"proxyd", "libsingshim.so", "libsingshim-device.so", "libsingshim-criu.so"} {
		if err := copyProgram(filepath.Join(folder, name), filepath.Join(w.Dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func (w *World) buildTools(folder string) error {
	if err := w.Command("make", "-s", "B="+folder, filepath.Join(folder, "proxyd")); err != nil {
		return err
	}
	return w.Command("make", "-s", "-C", "libsingshim", "O="+folder)
}

func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// Command runs a command in the tree's root. The error has the command's output.
func (w *World) Command(name string, args ...string) error {
	c := exec.Command(name, args...)
	c.Dir = w.root
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// Compile compiles a C file with the headers of tests/device/include, and returns the path of the program.
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

// Python returns the path of a Python that has PyTorch with CUDA, which contrib/cuda-software fetches from Debian. The test is
// skipped where the packages cannot be had.
func (w *World) Python(t testing.TB) string {
	t.Helper()
	return filepath.Join(w.Fetch(t, "pytorch"), "python")
}

// Fetch returns the folder into which contrib/cuda-software has fetched the software of that name. The test is skipped where
// the packages cannot be had.
func (w *World) Fetch(t testing.TB, what string) string {
	t.Helper()
	var said strings.Builder
	fetch := exec.Command(filepath.Join(w.root, "contrib/cuda-software/fetch"), what)
	fetch.Stderr = &said
	tree, err := fetch.Output()
	if err != nil {
		t.Skip("SKIP: ", err, ": ", said.String())
	}
	return strings.TrimSpace(string(tree))
}

// Program describes a run of a program.
type Program struct {
	Devices int
	On      []string // more flags of "proxyd run": the server or folder to share
	Path    string
	Args    []string
	Env     []string // in addition to the test's own
	Stdin   io.Reader
	Limit   time.Duration // a longer run fails
}

// Result says how a program ended.
type Result struct {
	Stdout, Stderr string
	Exit           int
}

// Run runs a program on the software GPU. When Run returns, no process of the program's process group is
// left.
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
