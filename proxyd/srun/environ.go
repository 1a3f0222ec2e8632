// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"slices"
	"strings"
)

// describesRun tells whether a variable of a batch step describes the run: where it is, which resources it has. In a
// later run the variable has another value, and a program that has survived the first run still has the old value.
func describesRun(name string) bool {
	switch {
	case strings.HasPrefix(name, "SLURM_SUBMIT_"), strings.HasPrefix(name, "SLURM_SPANK_"):
		return false // set by the user; the same in each run
	case strings.HasPrefix(name, "SLURM_"), strings.HasPrefix(name, "SLURMD_"):
		return true
	}
	return slices.Contains([]string{"CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"}, name)
}

// rewriteEnviron returns env with this run's variables in place of an earlier run's. Values that the script has changed
// since its start stay, with the node names of this run in their lists.
func (w *rewriter) rewriteEnviron(env []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		if seen[name] || name == KeyVariable || name == unbufferedVariable || len(w.Tasks) > 0 && slices.Contains(laidOutVariables, name) ||
			w.served != "" && name == mpiTypeVariable || name != w.served && (name == PMIVariable || name == PMIxVariable) ||
			name == TerminalVariable && !w.onTerminal {
			continue
		}
		seen[name] = true
		was, had := w.Was[name]
		now, has := w.Job[name]
		switch {
		case !describesRun(name):
		case had && was == value && has:
			value = now
		case had && was == value:
			continue
		default:
			value = w.rewriteVariable(name, value)
		}
		if w.Key != "" && (name == "SLURM_EXPORT_ENV" || name == "SRUN_EXPORT_ENV") {
			value = w.exportedNames() + "," + value
		}
		if w.FewerGPUs {
			var some bool
			if value, some = variableWithoutGPUs(name, value); !some {
				continue
			}
		}
		out = append(out, name+"="+value)
	}
	var missing []string
	for name, value := range w.Job {
		if w.FewerGPUs && slices.Contains(gpuVariables, name) {
			continue
		}
		// A variable that this run has and the first run had not is added: the script cannot have unset it.
		if _, had := w.Was[name]; !had && !seen[name] && describesRun(name) && w.Was != nil {
			missing = append(missing, name+"="+value)
		}
	}
	slices.Sort(missing)
	out = append(out, missing...)
	if w.Key != "" {
		out = append(out, KeyVariable+"="+w.Key)
	}
	return out
}

// rewriteVariable translates a variable that the script has set itself.
func (w *rewriter) rewriteVariable(name, value string) string {
	if len(w.Nodes) == 0 {
		return value
	}
	switch name {
	case "SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_STEP_NODELIST":
		return translateHosts(value, w.Nodes, true)
	case "SLURM_HOSTFILE":
		if path, ok := w.translateFile(value); ok {
			return path
		}
	}
	return value
}
