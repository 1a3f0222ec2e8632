// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The terminal of the first task of `srun --pty` in a protected job. Slurm's own would be made by slurmstepd, outside
 * of the capsule, and could not be captured. So the real srun runs without --pty, and
 *
 *	sing-terminal  a process of the task, the parent of its program, makes the terminal and drives it; the two are
 *	               captured together
 *	sing-srun      has the terminal on which srun was typed. sing-terminal connects to it by TCP in the network of
 *	               the capsules, which moves with them
 *
 *	terminal ── sing-srun ── TCP ── sing-terminal ── terminal ── program
 *
 *	sing-terminal                                 sing-srun
 *	─────────────                                 ─────────
 *	HELLO secret ───────────────────────────────► compares, or closes
 *	                                         ◄──  WINDOW rows, columns; after the first the program begins
 *	                                         ◄──  KEYS bytes that were typed
 *	output of the terminal, without frames ─────►
 *	the program has ended: end of file ─────────► shows the rest
 *	                                         ◄──  closes
 *	ends as the program has ended
 *
 * Frames have the form of PMI's (pmi/pmi.h), and so have the address and secret of sing-srun.
 */
#ifndef SING_TERMINAL_H
#define SING_TERMINAL_H

#include "pmi/pmi.h"

/*
 * The variable with the place of sing-srun, for the wardens of the step's tasks, or NO_TERMINAL. sing-srun sets it in
 * the call, and proxyd keeps it only where the step has --pty (proxyd/srun/terminal.go has the same names).
 */
#define TERMINAL_VARIABLE "SINGULARITY_SLURM_TERMINAL"

/* srun was typed on no terminal. */
#define NO_TERMINAL "none"

enum {
	TERMINAL_READ_SIZE = 4096, /* bytes that are read at once, and the most that a frame has */
	TERMINAL_MOST = 64 * 1024, /* bytes that are kept for a slow reader */
	WINDOW_SIZE = 8,
};

/* The terminal of a task. */
struct terminal {
	struct hub_place place; /* of sing-srun */
	bool first;		/* the task is the first of its step */
};

#endif
