// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// trainings are the programs of train.py. The run with another allocator answers question E9.
var trainings = []struct {
	name, program string
	env           []string
}{
	{"perceptron", "mlp", nil},
	{"GPT in bf16", "gpt", nil},
	{"GPT by autocast", "autocast", nil},
	{"CUDA graph", "graph", nil},
	{"torch.compile", "compile", nil},
	{"E9: GPT in bf16, cudaMallocAsync", "gpt", []string{"PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync", "PYTORCH_ALLOC_CONF=backend:cudaMallocAsync"}},
}

// needTorch tells whether there is PyTorch. If not, it adds a row that the step cannot run.
func (k *kit) needTorch(ctx context.Context, name string) bool {
	if !k.needGPU(name) {
		return false
	}
	if k.torch == "" && len(k.libs) == 0 && k.only != "" {
		k.torch = k.findPyTorch(ctx) // the first step, which does so, was not chosen
	}
	if k.torch != "" {
		k.addRow(row{Name: name, Outcome: cannot, Why: k.torch})
	}
	return k.torch == ""
}

// trainingTask runs train.py.
func (k *kit) trainingTask(name string, env []string, args ...string) task {
	size, limit := "large", 4*time.Minute
	if k.isSlow() {
		size, limit = "small", slowness*limit
	}
	return task{name: name, path: k.python, env: env, limit: limit, args: append([]string{k.filePath("programs", "train.py"), "--size", size}, args...)}
}

// comparePyTorch trains natively and by proxyd.
func comparePyTorch(ctx context.Context, k *kit) {
	if !k.needTorch(ctx, "PyTorch") {
		return
	}
	for _, t := range trainings {
		if !k.isChosen(t.name) {
			continue
		}
		if ctx.Err() != nil {
			k.addRow(row{Name: t.name, Outcome: cannot, Why: "the time of this step is over"})
			continue
		}
		if t.program == "compile" && k.triton == "none" {
			k.addRow(row{Name: t.name, Outcome: cannot, Why: "this PyTorch has no Triton, which it compiles with"})
			continue
		}
		k.compareTraining(ctx, t.name, t.program, t.env)
	}
}

// trainMeasurements has the numbers that train.py reports beside the losses.
type trainMeasurements struct {
	StepMs, MemoryMiB, ReservedMiB float64
}

// compareTraining adds a row with the middle step's time of both runs.
func (k *kit) compareTraining(ctx context.Context, name, program string, env []string) {
	report := func(side string) string { return filepath.Join(k.out, "logs", "train-"+program+"-"+side+".json") }
	args := []string{program, "--steps", fmt.Sprint(k.steps), "--report"}
	native := k.trainingTask(name, env, append(args, report("native"))...)
	alone := k.runNatively(ctx, native)
	ours := k.trainingTask(name, env, append(args, report("ours"))...)
	ours.quiet = true
	w := k.compareRuns(ctx, ours, alone)
	a, okA := readMeasured(report("native"))
	b, okB := readMeasured(report("ours"))
	if okA && okB {
		w.Values = map[string]string{
			"whole run":       fmt.Sprintf("%.1f s natively, %.1f s by proxyd", w.Native, w.Ours),
			"memory at most":  fmt.Sprintf("%.0f and %.0f MiB", a.MemoryMiB, b.MemoryMiB),
			"memory reserved": fmt.Sprintf("%.0f and %.0f MiB", a.ReservedMiB, b.ReservedMiB),
		}
		w.Native, w.Ours, w.Unit = a.StepMs, b.StepMs, "ms"
	}
	k.addRow(w)
}

func readMeasured(path string) (m trainMeasurements, ok bool) {
	text, err := os.ReadFile(path)
	return m, err == nil && json.Unmarshal(text, &m) == nil
}
