// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* What the rest of the shim tells the users of the tables of cuGetExportTable. */
#ifndef SING_DEVICE_EXPORT_H
#define SING_DEVICE_EXPORT_H

#include <stdint.h>

/*
 * A context is destroyed: what was kept with the context goes, and its keepers are told. Called without a lock.
 */
void sing_context_ended(uint64_t handle);

#endif
