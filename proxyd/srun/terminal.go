// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"errors"
	"slices"
	"strings"
)

// With --unbuffered slurmstepd gives the output of each task a terminal (slurmd/slurmstepd/io.c, _init_task_stdio_fds),
// so that the task's C library writes each line at once; with --pty the first task's input, too. The other side of that
// terminal is slurmstepd, outside of the capsule: the task could not be captured. So --unbuffered is left out, and a
// task writes into a pipe, as in other steps; submitit starts every job with that option. In the place of --pty the
// task's warden makes a terminal, which sing-srun connects to the terminal on which srun was typed
// (slurm-spank/terminal.h).

// TerminalVariable is the environment variable by which the wardens of a step with --pty learn where its sing-srun is.
// sing-srun sets it in the calls that may need it, to noTerminal where srun was typed on no terminal.
const TerminalVariable = "SINGULARITY_SLURM_TERMINAL"

const noTerminal = "none"

// ErrTerminal is returned for a call with --pty and other files for the input or output of the same task.
var ErrTerminal = errors.New("--input, --output and --error do not go with --pty")

// noTerminalNotice is what srun says of --pty without a terminal.
const noTerminalNotice = "srun: error: Not using a pseudo-terminal, disregarding --pty option\n"

// unbufferedVariable is the variable that means --unbuffered.
const unbufferedVariable = "SLURM_UNBUFFEREDIO"

func asksForPty(opts []givenOption) bool {
	return slices.ContainsFunc(opts, func(g givenOption) bool { return canonicalName(g.option) == "pty" }) && !asksForHelp(opts)
}

// forwardedOptions is how the variables begin by which Slurm passes the plugin's options of a job on to its steps
// (slurm-spank/options.c).
const forwardedOptions = "SLURM_SPANK__SLURM_SPANK_OPTION_singularity_"

// isProtected tells whether the plugin takes the tasks of a call into capsules. The user can leave a step out, by
// --singularity=off or without the variables.
func isProtected(parts []component, env []string) bool {
	protected := false
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		if name == forwardedOptions+"singularity" && value == "off" {
			return false
		}
		protected = protected || strings.HasPrefix(name, forwardedOptions)
	}
	for _, part := range parts {
		for _, g := range part.opts {
			if g.option.Name == "singularity" {
				protected = g.value != "off"
			}
		}
	}
	return protected
}

// chooseTerminal chooses what comes in the place of --pty. srun gets --pty itself in a step that is not protected, which
// has Slurm's own terminal, and where TerminalVariable is not set: sing-srun could not listen for the step's terminal, or
// is of a release that offers none. There the plugin refuses --pty (slurm-spank/srun.c).
func (w *rewriter) chooseTerminal(parts []component, env []string) error {
	if !slices.ContainsFunc(parts, func(part component) bool { return asksForPty(part.opts) }) || !isProtected(parts, env) {
		return nil
	}
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		if name != TerminalVariable {
			continue
		}
		w.withoutPty, w.onTerminal = true, value != noTerminal
		if !w.onTerminal && len(w.Tasks) == 0 { // in a later run the user has been told
			w.out.Notice = noTerminalNotice
		}
		break
	}
	if w.onTerminal && slices.ContainsFunc(parts, func(part component) bool { return namesFiles(part.opts) }) {
		return ErrTerminal
	}
	return nil
}

// namesFiles tells whether the user chooses the input or output of tasks.
func namesFiles(opts []givenOption) bool {
	return slices.ContainsFunc(opts, func(g givenOption) bool {
		return slices.Contains([]string{"input", "output", "error"}, canonicalName(g.option))
	})
}

// withoutTerminals leaves out the options by which slurmstepd makes terminals. For a task that has a terminal of ours,
// srun does not read its own input.
func (w *rewriter) withoutTerminals(opts []givenOption) []givenOption {
	opts = slices.DeleteFunc(opts, func(g givenOption) bool {
		name := canonicalName(g.option)
		return name == "unbuffered" || name == "pty" && w.withoutPty
	})
	if !w.onTerminal || asksForHelp(opts) {
		return opts
	}
	return append([]givenOption{w.newOption("input", "none")}, opts...)
}
