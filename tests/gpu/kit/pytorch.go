// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// framework is a Python package that trainings need.
type framework string

// The frameworks.
const (
	torch        framework = "PyTorch"
	transformers framework = "transformers"
	jax          framework = "JAX"
)

// training is a run of a program in Python.
type training struct {
	name, file, program string
	needs               framework
	env                 []string
	gpus                int // that the program has ranks for; 0 is 1
}

// trainings are in the order of the rows. The run with another allocator answers question E9.
var trainings = []training{
	{name: "perceptron", file: "train.py", program: "mlp", needs: torch},
	{name: "GPT in bf16", file: "train.py", program: "gpt", needs: torch},
	{name: "GPT by autocast", file: "train.py", program: "autocast", needs: torch},
	{name: "CUDA graph", file: "train.py", program: "graph", needs: torch},
	{name: "torch.compile", file: "train.py", program: "compile", needs: torch},
	{
		name: "E9: GPT in bf16, cudaMallocAsync", file: "train.py", program: "gpt", needs: torch,
		env: []string{"PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync", "PYTORCH_ALLOC_CONF=backend:cudaMallocAsync"},
	},
	{name: "GPT of 2 ranks by NCCL", file: "train.py", program: "ranks", needs: torch, gpus: 2},
	{name: "Llama in PyTorch", file: "generate.py", program: "torch", needs: torch},
	{name: "Llama by transformers", file: "generate.py", program: "transformers", needs: transformers},
	{name: "JAX perceptron", file: "train_jax.py", needs: jax},
}

// whyNot says why a framework cannot be used, or "".
func (k *kit) whyNot(ctx context.Context, f framework) string {
	if why, known := k.absent[f]; known {
		return why
	}
	k.findFrameworks(ctx) // the first step, which does so, was not chosen
	return k.absent[f]
}

// trainingTask runs a training.
func (k *kit) trainingTask(t *training, args ...string) task {
	size, limit := "large", 4*time.Minute
	if k.isSlow() {
		size, limit = "small", slowness*limit
	}
	all := []string{k.filePath("programs", t.file)}
	if t.program != "" {
		all = append(all, t.program)
	}
	return task{name: t.name, path: k.python, env: t.env, limit: limit, devices: t.gpus, apart: true, args: append(append(all, "--size", size), args...)}
}

// whyCannotTrain says why a training cannot run here, or "".
func (k *kit) whyCannotTrain(ctx context.Context, t *training) string {
	why := k.whyNot(ctx, t.needs)
	switch {
	case why != "":
		return why
	case t.program == "compile" && k.triton == "none":
		return "this PyTorch has no Triton, which it compiles with"
	case t.gpus > k.gpus && !k.soft:
		return fmt.Sprintf("it needs %d GPUs, and there is %d", t.gpus, k.gpus)
	}
	return ""
}

// compareTrainings trains natively and by proxyd.
func compareTrainings(ctx context.Context, k *kit) {
	if !k.needGPU("PyTorch and JAX") {
		return
	}
	for i := range trainings {
		t := &trainings[i]
		if !k.isChosen(t.name) {
			continue
		}
		if ctx.Err() != nil {
			k.addRow(row{Name: t.name, Outcome: cannot, Why: timeOver})
			continue
		}
		if why := k.whyCannotTrain(ctx, t); why != "" {
			k.addRow(row{Name: t.name, Outcome: cannot, Why: why})
			continue
		}
		k.compareTraining(ctx, t)
	}
}

// trainMeasurements has the numbers that a program reports beside the losses.
type trainMeasurements struct {
	StepMs, MemoryMiB, ReservedMiB float64
}

// compareTraining adds a row with the middle step's time of both runs.
func (k *kit) compareTraining(ctx context.Context, t *training) {
	report := func(side string) string {
		return filepath.Join(k.out, "logs", strings.NewReplacer("/", "-", " ", "-").Replace(t.name)+"-"+side+".json")
	}
	args := []string{"--steps", fmt.Sprint(k.steps), "--report"}
	native := k.trainingTask(t, append(args, report("native"))...)
	alone := k.runNatively(ctx, native)
	ours := k.trainingTask(t, append(args, report("ours"))...)
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
