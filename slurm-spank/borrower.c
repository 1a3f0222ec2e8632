// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "borrower.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Slurm's ESLURM_INVALID_JOB_ID, of each release. */
enum { NO_SUCH_JOB = 2017 };

/*
 * Slurm's functions are in the program that loads the plugin. They are found by name, because the plugin is
 * loaded by programs without them, too. The answer is not read: its layout is that of one release.
 */
typedef int load_job(void **answer, uint32_t job, uint16_t flags);
typedef void free_jobs(void *answer);

const char *borrower_refusal(const char *job)
{
	static char why[128];
	void *answer = NULL;
	load_job *load;
	free_jobs *done;

	*(void **)&load = dlsym(RTLD_DEFAULT, "slurm_load_job");
	*(void **)&done = dlsym(RTLD_DEFAULT, "slurm_free_job_info_msg");
	if (!load || !done)
		return (NULL);
	if (load(&answer, (uint32_t)strtoul(job, NULL, 10), 0) == 0) {
		done(answer);
		return (NULL);
	}
	if (errno != NO_SUCH_JOB) /* slurmctld is away, and sbatch will say so */
		return (NULL);
	snprintf(why, sizeof(why), "--singularity-lease=%.20s: Slurm knows no such job; accepted: the number of a running job of yours", job);

	return (why);
}
