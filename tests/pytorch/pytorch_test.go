// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package pytorch runs unmodified PyTorch, with CUDA, the vendor's cuBLAS and backend nccl, on the software GPU. The
// programs are like those that people write; contrib/cuda-software fetches PyTorch from Debian.
package pytorch

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/tests/device/soft"
)

func TestMain(m *testing.M) { soft.Main(m) }

// limit allows for machines with much other load: a run takes half a minute on two idle cores.
const limit = 8 * time.Minute

// runPython runs Python on two software GPUs, and returns its output. The test is skipped where PyTorch is not
// available.
func runPython(t *testing.T, on []string, args ...string) string {
	t.Helper()
	return runPythonWith(t, wire.BlasVendor, on, args...)
}

// runPythonWith is runPython with a choice of the library that multiplies matrices.
func runPythonWith(t *testing.T, blas string, on []string, args ...string) string {
	t.Helper()
	w := soft.Need(t)
	r := w.Run(t, soft.Program{Path: w.Python(t), Args: args, Devices: 2, On: on, Env: []string{wire.BlasEnv + "=" + blas}, Limit: limit})
	if r.Exit != 0 {
		t.Fatalf("%q ended with %d\nstdout:\n%s\nstderr:\n%s", args, r.Exit, r.Stdout, r.Stderr)
	}
	return r.Stdout
}

// TestOperators: operators have the same results as on the CPU, a perceptron learns, a captured graph is replayed.
func TestOperators(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(runPython(t, nil, "programs/operators.py")), "\n")
	for _, line := range lines {
		if !strings.HasSuffix(line, ": ok") {
			t.Errorf("a line of operators.py does not end with ok: %v", line)
		}
	}
	if len(lines) < 33 {
		t.Errorf("%d lines, want 33", len(lines))
	}
}

// TestPackageOperators: the operators of PyTorch's own tests have the same results on the GPU as on the CPU, with the
// inputs of these tests.
func TestPackageOperators(t *testing.T) {
	args, least := []string{"programs/package_operators.py", "--samples", "3"}, 600
	if testing.Short() {
		args, least = append(args, "--every", "6"), 95
	}
	out := runPython(t, nil, args...)
	found := regexp.MustCompile(`^(\d+) equal, \d+ left out, 0 wrong\n$`).FindStringSubmatch(out)
	if found == nil {
		t.Fatalf("package_operators.py does not print its counts with 0 wrong: %v", out)
	}
	if equal, _ := strconv.Atoi(found[1]); equal < least {
		t.Errorf("%d operators were compared, want %d", equal, least)
	}
}

// TestTraining: a GPT in bf16 that two processes train by DistributedDataParallel over nccl learns, and has the same bits in each
// loss on two devices and on a single device that both ranks share.
func TestTraining(t *testing.T) {
	checkTraining(t, "programs/gpt.py")
}

// TestShardedGPT: the same for a GPT of three million parameters, which are sharded over the ranks (FSDP), with batches
// from the worker processes of a DataLoader.
func TestShardedGPT(t *testing.T) {
	if testing.Short() {
		t.Skip("TestTraining has a GPT, TestLoader worker processes")
	}
	checkTraining(t, "programs/sharded_gpt.py")
}

// checkTraining checks that a program with two ranks learns, with the same bits in each loss on two devices and on a single
// device.
func checkTraining(t *testing.T, program string) {
	t.Helper()
	train := []string{program, "--processes", "2", "--steps", "3"}
	two := runPython(t, nil, train...)
	losses := regexp.MustCompile(`(?m)^step \d+ loss (\S+) `).FindAllStringSubmatch(two, -1)
	if len(losses) != 3 || losses[2][1] >= losses[0][1] {
		t.Fatalf("the loss does not fall:\n%s", two)
	}
	if one := runPython(t, []string{"--on", "1"}, train...); one != two {
		t.Errorf("on a shared device:\n%s\non two:\n%s", one, two)
	}
}

// TestLoader: worker processes of a DataLoader bring batches to the GPU, through pinned memory.
func TestLoader(t *testing.T) {
	const want = "sum 186816.0\n" // twice of each number to 63: four times the number, and its square
	if got := runPython(t, nil, "programs/loader.py"); got != want {
		t.Errorf("loader.py printed %q, want %q", got, want)
	}
}

// TestShared: a process changes tensors of another process, which torch.multiprocessing has passed, and passes tensors back.
func TestShared(t *testing.T) {
	var want strings.Builder
	var mine [12]int
	for i := range mine {
		mine[i] = i
	}
	for step := range 6 {
		var columns [4]float64
		sum := 0
		for i := range mine {
			mine[i] = 2*mine[i] + step
			columns[i%4] += float64(mine[i])
			sum += mine[i]
		}
		fmt.Fprintf(&want, "step %d [%.1f, %.1f, %.1f, %.1f] %d.0\n", step, columns[0], columns[1], columns[2], columns[3], sum)
	}
	for _, on := range [][]string{nil, {"--on", "1"}} {
		got := runPython(t, on, "programs/share.py")
		if !strings.HasPrefix(got, want.String()+"exit 0 [[57.0, ") {
			t.Errorf("share.py printed %s, want\n%s", got, &want)
		}
	}
}

// TestSharded: parameters that are sharded over two ranks (FSDP) are trained.
func TestSharded(t *testing.T) {
	if testing.Short() {
		t.Skip("TestTraining has nccl")
	}
	losses := strings.Fields(runPython(t, nil, "programs/fsdp.py"))
	if len(losses) != 4 || losses[3] >= losses[0] {
		t.Errorf("the loss does not fall: %q", losses)
	}
}
