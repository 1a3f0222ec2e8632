// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* The start of a task for which Slurm was given a container. */
#ifndef SING_CONTAINER_H
#define SING_CONTAINER_H

#include <slurm/spank.h>

/*
 * Replace this process by the warden, with options and with the task's program. Otherwise
 * slurmstepd would start the task by the site's OCI runtime after this hook, even with other
 * arguments (container_run in slurmd/slurmstepd/container.c). This function also does the work of
 * slurmstepd in between: the limits of the job. The prolog of the task is not run.
 *
 * script, if not NULL or "", takes the place of the program's first word. Returns only after a
 * failure, which was reported to the user.
 */
void container_execute(spank_t sp, const char *warden, const char *const *options, int n, const char *script);

#endif
