// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Events of the shim of which export.c tells the users of its tables. */
#ifndef SING_DEVICE_EXPORT_H
#define SING_DEVICE_EXPORT_H

#include <stdint.h>

/*
 * A context is destroyed: remove the values that were kept with the context, and call the functions that
 * were given with them. Called without a lock.
 */
void sing_context_ended(uint64_t handle);

#endif
