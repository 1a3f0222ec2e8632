// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Every message begins with the name of this project. */
#ifndef SING_LOG_H
#define SING_LOG_H

#include <slurm/spank.h>

#define sing_error(format, ...) slurm_error("singularity: " format __VA_OPT__(, ) __VA_ARGS__)
#define sing_info(format, ...) slurm_info("singularity: " format __VA_OPT__(, ) __VA_ARGS__)

#endif
