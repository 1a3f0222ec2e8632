// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"slices"
	"strings"
)

// gpuOptions are the options that ask for GPUs. gpuLists are options with lists of resources, some of which may be
// GPUs. The other two are the variables that mean the same.
var (
	gpuOptions = []string{
		"gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task", "gpu-bind", "gpu-freq", "cpus-per-gpu", "mem-per-gpu", "gres-flags", "tres-bind",
	}
	gpuLists     = []string{"gres", "tres-per-task"}
	gpuVariables = []string{
		"SLURM_GPUS", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_SOCKET", "SLURM_GPUS_PER_TASK", "SLURM_GPU_BIND", "SLURM_GPU_FREQ",
		"SLURM_CPUS_PER_GPU", "SLURM_MEM_PER_GPU", "SLURM_GRES_FLAGS", "SLURM_TRES_BIND",
	}
	gpuListVariables = []string{"SLURM_GRES", "SLURM_TRES_PER_TASK"}
)

// withoutGPUs leaves out the options, and the items of lists, that ask for GPUs.
func withoutGPUs(opts []givenOption) []givenOption {
	var out []givenOption
	for _, g := range opts {
		name := canonicalName(g.option)
		if slices.Contains(gpuLists, name) {
			list := othersOf(g.value)
			if list == "" {
				continue
			}
			if list != g.value {
				g = g.withValue(list)
			}
		}
		if !slices.Contains(gpuOptions, name) {
			out = append(out, g)
		}
	}
	return out
}

// othersOf are the items of a list of resources that are no GPUs: "license:1" of "gpu:a100:2,license:1".
func othersOf(list string) string {
	items := slices.DeleteFunc(strings.Split(list, ","), func(item string) bool {
		kind := strings.TrimPrefix(strings.TrimSpace(item), "gres/")
		kind = strings.TrimPrefix(kind, "gres:")
		return kind == "gpu" || strings.HasPrefix(kind, "gpu:") || strings.HasPrefix(kind, "gpu=")
	})
	return strings.Join(items, ",")
}

// variableWithoutGPUs returns a variable's value without GPUs; false if the variable is to be left out.
func variableWithoutGPUs(name, value string) (string, bool) {
	switch {
	case slices.Contains(gpuVariables, name):
		return "", false
	case slices.Contains(gpuListVariables, name):
		value = othersOf(value)
		return value, value != ""
	}
	return value, true
}
