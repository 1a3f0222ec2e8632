// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The bundle that sbatch and srun are given with --container. A bundle that is not there is refused
 * when the job is submitted: Slurm would find that out when the job starts, and hold it or tell its log.
 */
#ifndef SING_BUNDLE_H
#define SING_BUNDLE_H

#include "cmdline.h"

/*
 * NULL, or why the bundle is refused of which words, of srun or sbatch, speak. The first word is
 * the program. The text is valid until the next call.
 */
const char *bundle_refusal_of_srun(const struct cmdline *c, int words);

/*
 * As above, of sbatch, where the script follows sbatch's words: lines with #SBATCH and the variable
 * SBATCH_CONTAINER count as well.
 */
const char *bundle_refusal_of_sbatch(const struct cmdline *c, int words);

#endif
