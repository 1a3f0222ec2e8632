// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"slices"
	"strings"
)

// inputVariable is srun's variable for --input.
const inputVariable = "SLURM_STDINMODE"

// readsInput tells whether srun reads its standard input for a component of a call. It does so for the word "all" or no
// word, and for one task, named by its number; not for another word, which is "none" or a file's name. The last option
// counts, else the variable.
func readsInput(opts []givenOption, env []string) bool {
	mode := ""
	for _, kv := range env {
		if name, value, _ := strings.Cut(kv, "="); name == inputVariable {
			mode = value
		}
	}
	for _, g := range slices.Backward(opts) {
		if canonicalName(g.option) == "input" {
			mode = g.value
			break
		}
	}
	return strings.EqualFold(mode, "all") || strings.Trim(mode, "0123456789") == ""
}
