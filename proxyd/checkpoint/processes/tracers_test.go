// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
)

// startTracer starts a process by the interpreter python that traces a thread, and returns its PID when the thread is traced.
func startTracer(t *testing.T, python string, thread int) int {
	t.Helper()
	return startPythonAs(t, python, fmt.Sprintf(`
import ctypes
assert ctypes.CDLL(None).ptrace(0x4206, %d, None, None) == 0 # PTRACE_SEIZE`, thread))
}

// obstacleTexts returns the obstacles of a process, as people read them.
func obstacleTexts(t *testing.T, init, pid int) (texts []string) {
	t.Helper()
	for _, o := range FindObstacles(t.Context(), init, []capsule.Program{{Name: "batch", Cgroup: groupOf(t, pid)}}) {
		texts = append(texts, o.String())
	}
	return texts
}

// TestTraced: a process with a thread that another program of the job traces is named, with the tracer's name. The tracer is
// no obstacle.
func TestTraced(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: it traces a process that is not its child")
	}
	pid := startPython(t, `
import threading, time
for _ in range(3): threading.Thread(target=lambda: time.sleep(1000), daemon=True).start()`)
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil || len(threads) != 4 {
		t.Fatalf("threads %v, %v, want 4", threads, err)
	}
	if got := obstacleTexts(t, os.Getpid(), pid); len(got) > 0 {
		t.Errorf("before it is traced: obstacles %q", got)
	}
	var last int
	if _, err := fmt.Sscan(threads[3].Name(), &last); err != nil {
		t.Fatal(err)
	}
	tracer := startTracer(t, "python3", last)
	want := []string{fmt.Sprintf("python3 (PID %d) is traced by python3: end the debugger or tracer", pid)}
	if got := obstacleTexts(t, os.Getpid(), pid); !slices.Equal(got, want) {
		t.Errorf("obstacles %q, want %q", got, want)
	}
	if got := obstacleTexts(t, os.Getpid(), tracer); len(got) > 0 {
		t.Errorf("of the tracer: obstacles %q", got)
	}
}

// TestTracedFromOutside: of a tracer that is not in the capsule that is said, with other advice. That CRIU traces a process
// is no obstacle.
func TestTracedFromOutside(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: it makes a PID namespace")
	}
	criu := filepath.Join(t.TempDir(), "criu")
	python, err := exec.Command("python3", "-c", "import sys; print(sys.executable, end='')").Output()
	if err == nil {
		err = os.Symlink(string(python), criu)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, python := range []string{"python3", criu} {
		t.Run(filepath.Base(python), func(t *testing.T) {
			init := startInNamespaces(t, syscall.CLONE_NEWPID)
			tracer := startTracer(t, python, init)
			var want []string
			if python != criu {
				want = []string{fmt.Sprintf("cat (PID 1) is traced from outside of the job, by python3 (PID %d of the node): "+
					"wait until that has ended, or ask the node's administrator to end it", tracer)}
			}
			if got := obstacleTexts(t, init, init); !slices.Equal(got, want) {
				t.Errorf("obstacles %q, want %q", got, want)
			}
		})
	}
}
