// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#ifndef OPTIONS_H
#define OPTIONS_H

struct options;

/*
 * Fills in what the environment and the arguments say; o has the defaults. Returns -1, or the exit status with which the
 * program is to end now: after --help, or because they make no sense, which is said.
 */
int read_options(struct options *o, int argc, char **argv);

#endif
