// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#ifndef OPTIONS_H
#define OPTIONS_H

struct options;

/*
 * Fills in the options of the environment and of the arguments; o has the defaults. Returns -1, or the exit status with
 * which the program must end now: after --help, or after an error in the options, which was printed.
 */
int read_options(struct options *o, int argc, char **argv);

#endif
