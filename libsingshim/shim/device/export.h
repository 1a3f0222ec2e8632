// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* What the rest of the shim tells those who use the tables of cuGetExportTable. */
#ifndef SING_DEVICE_EXPORT_H
#define SING_DEVICE_EXPORT_H

#include <stdint.h>

/* A context is no more: what was kept with it goes, and who kept it is told. Called without a lock. */
void sing_context_ended(uint64_t handle);

#endif
