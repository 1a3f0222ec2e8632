// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* The environment of a task, as Slurm will give it to the task's program. Failures are logged. */
#ifndef SING_ENVIRONMENT_H
#define SING_ENVIRONMENT_H

#include <slurm/spank.h>

void set_variable(spank_t sp, const char *name, const char *value);

enum place { FIRST, LAST };

/*
 * Add a path to a list of the linker's, unless the list has it: a step inherits the list from the
 * batch script.
 */
void add_path(spank_t sp, const char *name, const char *path, enum place place);

/* Take a path out of a list of the linker's. */
void drop_path(spank_t sp, const char *name, const char *path);

/*
 * Number the task's devices from 0, as Slurm does where it shows a job its own devices only. Programs compare the numbers
 * with the number of devices: PyTorch finds no device 3 among the two that the job has.
 */
void number_devices(spank_t sp);

#endif
