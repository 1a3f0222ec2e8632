// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* NVML, as cuda.h in this folder is CUDA's driver. */
#ifndef NVML_H
#define NVML_H

#define NVML_DEVICE_NAME_BUFFER_SIZE 64
#define NVML_DEVICE_UUID_BUFFER_SIZE 80
#define NVML_TEMPERATURE_GPU 0

#include "gen_nvml.h"

#endif
