// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The hooks of the four contexts. Only dispatch.c calls these functions. They never fail: slurmd
 * drains a node where the plugin fails, and where the plugin is marked optional a failure has no
 * effect. A job or task that must not run is refused where its user sees the reason: in the program
 * that the user started, or in the task itself.
 */
#ifndef SING_CONTEXTS_H
#define SING_CONTEXTS_H

#include <slurm/spank.h>

/* --- alloc.c: sbatch and salloc --- */

void alloc_init(spank_t sp, int argc, char **argv);
void alloc_options_known(void);

/* --- srun.c --- */

void srun_init(spank_t sp, int argc, char **argv);
void srun_options_known(void);

/* --- slurmd.c: the daemon, and the epilog that the daemon runs --- */

void slurmd_init(int argc, char **argv);
void slurmd_job_over(spank_t sp, int argc, char **argv);

/*
 * --- stepd.c: a step of a job; the last two run in the process that becomes the task ---
 */

void stepd_init(spank_t sp, int argc, char **argv);
void stepd_task_as_root(spank_t sp);
void stepd_task_as_user(spank_t sp);

#endif
