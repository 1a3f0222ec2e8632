// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* NCCL, as cuda.h in this folder is CUDA's driver. */
#ifndef NCCL_H
#define NCCL_H

#include <limits.h>

#define NCCL_VERSION(major, minor, patch) ((major) * 10000 + (minor) * 100 + (patch))
#define NCCL_VERSION_CODE NCCL_VERSION(2, 18, 0)
#define NCCL_UNIQUE_ID_BYTES 128
#define NCCL_SPLIT_NOCOLOR (-1)
#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL

typedef int ncclDataType_t;
typedef int ncclScalarResidence_t;

#include "gen_nccl.h"

/* Other names of the same numbers. */
enum {
	ncclChar = ncclInt8,
	ncclInt = ncclInt32,
	ncclHalf = ncclFloat16,
	ncclFloat = ncclFloat32,
	ncclDouble = ncclFloat64,
};

/* As of 2.18; the first three fields say so, and a newer library takes such a struct. */
typedef struct {
	size_t size;
	unsigned int magic;
	unsigned int version;
	int blocking;
	int cgaClusterSize;
	int minCTAs;
	int maxCTAs;
	const char *netName;
	int splitShare;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER \
	{ sizeof(ncclConfig_t), 0xcafebeef, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, \
	  NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT }

#endif
