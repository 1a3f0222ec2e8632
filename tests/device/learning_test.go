// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/tests/device/soft"
)

// TestReplacedLearning: unmodified PyTorch, with matrix products by the software GPU itself, trains a perceptron in f32
// and in bf16 with the same bits as undisturbed while its device server is saved, killed and replaced after each second
// line.
func TestReplacedLearning(t *testing.T) {
	if testing.Short() {
		t.Skip("tests/pytorch has the same training, undisturbed")
	}
	w := soft.Need(t)
	python, args := w.Python(t), []string{"../pytorch/programs/learn.py", "--steps", "6", "mlp"}
	t.Setenv(wire.BlasEnv, wire.BlasNative)
	want := w.Run(t, soft.Program{Devices: 2, Path: python, Args: args, Limit: busyLimit})
	if want.Exit != 0 {
		t.Fatalf("undisturbed, it ends with %d\n%s\n%s", want.Exit, want.Stdout, want.Stderr)
	}
	got, n := runWhileReplacedAtLines(t, w, busyLimit, python, args...)
	if got != want.Stdout || n < 4 {
		t.Errorf("after %d replacements, want 4 or more, it printed\n%s, not\n%s", n, got, want.Stdout)
	}
}

// runWhileReplacedAtLines runs a program whose device server is replaced after the first, third, … line that the program
// prints, and returns the program's output, and how often the server was replaced. The program prints an even number of
// lines.
func runWhileReplacedAtLines(t *testing.T, w *soft.World, limit time.Duration, path string, args ...string) (string, int) {
	t.Helper()
	folder, socket, env := makePlace(t, w)
	var log, stderr soft.Output
	k, err := startKeeper(w, socket, "0,1", &log)
	if err != nil {
		t.Fatal(err, log.String())
	}
	defer func() {
		if k != nil {
			_ = k.killServer()
		}
	}()
	c := exec.CommandContext(t.Context(), path, args...)
	c.Env = append(os.Environ(), env...)
	c.Stderr = &stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	stop := time.AfterFunc(limit, func() { _ = c.Cancel() })
	defer stop.Stop()
	var printed bytes.Buffer
	replaced := 0
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		printed.WriteString(lines.Text() + "\n")
		if strings.Count(printed.String(), "\n")%2 == 0 {
			continue // the last line is even: the program may have ended
		}
		if k, err = k.replaceServer(t.Context(), w, socket, folder, replaced, &log, func() {}); err != nil {
			_ = c.Cancel()
			t.Fatalf("replacement %d: %v\n%s\n%s\n%s", replaced, err, &printed, &stderr, &log)
		}
		replaced++
	}
	if err := c.Wait(); err != nil {
		t.Fatalf("%v after %d replacements\n%s\n%s\n%s", err, replaced, &printed, &stderr, &log)
	}
	return printed.String(), replaced
}
