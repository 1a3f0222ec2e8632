// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* The GPUs that the user's words ask Slurm for, next to --singularity-gpus=MIN-MAX among the same words. */
#ifndef SING_ASKED_GPUS_H
#define SING_ASKED_GPUS_H

#include "cmdline.h"

/*
 * Why a range, "MIN-MAX", makes no sense for the job that sbatch is to submit, or NULL: the job asks for fewer GPUs
 * than MIN. If the job asks for none, the user is told that the range does nothing. What is known are the first words of
 * the command line, the script's #SBATCH lines and sbatch's variables. Where they do not tell how many GPUs the job
 * gets, or where --singularity-gpus is not among them because another job or SINGULARITY_SLURM has given the range,
 * nothing is refused. The text is valid until the next call.
 */
const char *asked_gpus_refusal(const char *range, const struct cmdline *c, int words);

#endif
