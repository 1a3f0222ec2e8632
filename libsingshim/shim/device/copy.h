// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Copies of a row of bytes, for copies of more than one dimension. All return CUDA's results. */
#ifndef SING_DEVICE_COPY_H
#define SING_DEVICE_COPY_H

#include "gen_abi.h"

#include <stdbool.h>

#define SING_THREAD_STREAM ((CUstream)2)

/* The copies are over when these return. */
CUresult sing_copy_in(CUdeviceptr dst, const void *src, size_t n, CUstream stream);
CUresult sing_copy_out(void *dst, CUdeviceptr src, size_t n, CUstream stream);

/* Whether work for the stream is captured. */
bool sing_copy_is_captured(CUstream stream);

#endif
