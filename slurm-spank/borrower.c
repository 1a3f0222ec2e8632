// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
/*
 * With this, the header of Slurm 26.05 converts the number of a job to the type that its functions
 * take.
 */
#define SLURM_BACKWARD_COMPAT
#include "borrower.h"

#include <errno.h>
#include <slurm/slurm.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * The plugin is not linked with libslurm: sbatch has the functions. As they are weak, a program without
 * them can load the plugin, too.
 */
#pragma weak slurm_load_job
#pragma weak slurm_free_job_info_msg

const char *borrower_refusal(const char *job)
{
	static char why[128];
	const uint32_t number = (uint32_t)strtoul(job, NULL, 10);
	job_info_msg_t *answer = NULL;

	if (!slurm_load_job || !slurm_free_job_info_msg)
		return (NULL);
	if (slurm_load_job(&answer, number, 0) == 0) {
		slurm_free_job_info_msg(answer);
		return (NULL);
	}
	if (errno != ESLURM_INVALID_JOB_ID) /* slurmctld does not answer, and sbatch will report that */
		return (NULL);
	snprintf(why, sizeof(why), "--singularity-lease=%.20s: Slurm knows no such job; accepted: the number of a running job of yours", job);

	return (why);
}
