// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * CUDA's driver, for programs of ours that are compiled where no toolkit is: the same names, numbers and layouts, so
 * that the same source compiles with the vendor's header, and the same binary runs over the vendor's library and over ours.
 * gen_cuda.h comes from the table of calls; here are the declarations beyond the table, from the public documentation.
 */
#ifndef CUDA_H
#define CUDA_H

#include <stddef.h>
#include <stdint.h>

#define CUDA_VERSION 12000

#include "gen_cuda.h"

typedef struct {
	unsigned char reserved[64];
} CUmemPoolPtrExportData;

#define CU_STREAM_LEGACY     ((CUstream)0x1)
#define CU_STREAM_PER_THREAD ((CUstream)0x2)

#define CU_LAUNCH_PARAM_END            ((void *)0x0)
#define CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)0x1)
#define CU_LAUNCH_PARAM_BUFFER_SIZE    ((void *)0x2)

#define CU_DEVICE_CPU     ((CUdevice)-1)
#define CU_DEVICE_INVALID ((CUdevice)-2)

#endif
