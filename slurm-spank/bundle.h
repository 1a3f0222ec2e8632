// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The bundle that the user gives to sbatch and srun with --container. A missing bundle is refused when
 * the job is submitted: Slurm would notice only when the job starts, and then hold the job or write to
 * its log.
 */
#ifndef SING_BUNDLE_H
#define SING_BUNDLE_H

#include "cmdline.h"

/*
 * Why the bundle that the words of srun name is refused, or NULL. The first word is the program.
 * The text is valid until the next call.
 */
const char *bundle_refusal_of_srun(const struct cmdline *c, int words);

/*
 * As above, for sbatch, where the script follows sbatch's words: lines with #SBATCH and the
 * variable SBATCH_CONTAINER count as well.
 */
const char *bundle_refusal_of_sbatch(const struct cmdline *c, int words);

#endif
