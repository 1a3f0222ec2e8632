// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Exit codes of a task without a run of its program. */
#ifndef SING_EXIT_CODES_H
#define SING_EXIT_CODES_H

enum {
	EXIT_NOT_STARTED = 125,	/* for a reason that is not in the program: the task was refused, for example */
	EXIT_NOT_EXECUTABLE = 126,
	EXIT_NOT_FOUND = 127,
};

#endif
