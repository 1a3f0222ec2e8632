// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// forAll are the options by which nvcc puts PTX for all GPUs since Ampere into a program, and no machine code.
var forAll = []string{"-gencode", "arch=compute_80,code=compute_80"}

// findCompiler says where nvcc is, or why there is none.
func (k *kit) findCompiler() (path, why string) {
	for _, name := range []string{k.nvcc, "/usr/local/cuda/bin/nvcc"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, ""
		}
	}
	return "", "there is no " + k.nvcc
}

func (k *kit) describeCompiler(ctx context.Context) {
	path, why := k.findCompiler()
	if why != "" {
		k.addRow(row{Name: "nvcc", Outcome: cannot, Why: why})
		return
	}
	e := k.runChild(ctx, task{name: "nvcc", limit: 10 * time.Second}, path, "--version")
	_, version, _ := strings.Cut(e.stdout, "release ")
	version, _, _ = strings.Cut(version, "\n")
	k.addRow(row{Name: "nvcc", Outcome: right, Values: map[string]string{"program": path, "version": version}})
}

// compileProgram compiles runtime.cu with options of nvcc, and says why that is not possible here.
func (k *kit) compileProgram(ctx context.Context, name string, options ...string) (path, why string) {
	compiler, why := k.findCompiler()
	if why != "" {
		return "", why
	}
	path = filepath.Join(k.out, "logs", name)
	command := append([]string{compiler, "-O1", "-o", path}, options...)
	e := k.runChild(ctx, task{name: "nvcc " + name, limit: time.Minute}, append(command, k.filePath("programs", "runtime.cu"))...)
	if e.err != nil || e.exit != 0 {
		return "", compiler + " does not compile the program: " + e.describeFailure()
	}
	return path, ""
}

// compileForAll compiles runtime.cu as PTX.
func (k *kit) compileForAll(ctx context.Context) (path, why string) {
	return k.compileProgram(ctx, "runtime-ptx", forAll...)
}

// compareCompiled compiles a program of CUDA's runtime, as PTX and for the node's GPU, and compares its runs.
func compareCompiled(ctx context.Context, k *kit) {
	if !k.needGPU("a program of nvcc") {
		return
	}
	const asPTX, forThis = "a program of nvcc, as PTX", "a program of nvcc, for this GPU"
	for _, name := range []string{asPTX, forThis} {
		if !k.isChosen(name) {
			continue
		}
		var path, why string
		switch {
		case name == asPTX:
			path, why = k.compileForAll(ctx)
		case k.isSlow():
			why = "software GPUs run PTX, and no machine code"
		default:
			path, why = k.compileProgram(ctx, "runtime-native", "-arch=native")
		}
		if why != "" {
			k.addRow(row{Name: name, Outcome: cannot, Why: why})
			continue
		}
		p := task{name: name, path: path, args: []string{fmt.Sprint(k.steps)}, limit: time.Minute}
		k.compareRuns(ctx, p, k.runNatively(ctx, p))
	}
}
