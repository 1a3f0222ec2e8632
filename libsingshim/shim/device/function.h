// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The facts of kernels that the shim knows, so that a launch is checked at the call, where the program reacts
 * to the error, without a message. The server is asked at the first launch of each kernel, and again after a
 * module or library was unloaded.
 */
#ifndef SING_DEVICE_FUNCTION_H
#define SING_DEVICE_FUNCTION_H

#include "gen_abi.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A parameter in the block of parameters. */
struct sing_param {
	uint32_t offset, size;
};

struct sing_function {
	CUfunction function; /* the function to launch: for a kernel, its function in the context */
	sing_facts facts;
	_Atomic uint32_t shared;    /* the present facts.shared: cuFuncSetAttribute changes the number */
	_Atomic uint64_t fits;	    /* of cooperative launches: the last shape and how many blocks fit */
	uint32_t params;
	const struct sing_param *param;
};

/* How a program hands a launch to cuLaunchKernelEx. */
struct sing_launch_config {
	unsigned int grid[3], block[3], shared;
	CUstream stream;
	CUlaunchAttribute *attributes;
	unsigned int n;
};
_Static_assert(sizeof(struct sing_launch_config) == 56 && offsetof(struct sing_launch_config, stream) == 32, "as the driver has it");

/* How many blocks a cluster of these dimensions has, or more than any may have; a dimension of 0 counts as 1. */
static inline uint64_t sing_cluster_blocks(const CUlaunchAttributeValue *dimensions)
{
	uint64_t blocks = 1;
	uint32_t of[3];

	memcpy(of, dimensions->word, sizeof(of));
	for (int i = 0; i < 3; ++i)
		blocks *= of[i] == 0 ? 1 : of[i] < 65536 ? of[i] : 65536;
	return blocks;
}

/* The shape of a launch: the grid, and the threads and dynamic shared memory of a block. */
struct sing_shape {
	unsigned int grid[3], block[3], shared;
	bool cooperative;
};

/*
 * The facts of a function, or of a kernel (which may be passed as a function) in the calling thread's
 * context. The result stays for the life of the process. An unknown handle is CUDA_ERROR_INVALID_HANDLE.
 */
CUresult sing_function_know(CUfunction function, struct sing_function **known);

/* Check a launch: the result that the driver returns at the call. */
CUresult sing_function_check(struct sing_function *f, const struct sing_shape *shape);

/*
 * Put the block of parameters together, from either of the two ways in which a program hands them over. room
 * has f->facts.bytes.
 */
CUresult sing_function_params(const struct sing_function *f, void **params, void **extra, unsigned char *room);

/* From now on, a launch of the function may ask for so many bytes of dynamic shared memory. */
void sing_function_shares(CUfunction function, uint32_t bytes);

/* Libraries may have been unloaded: ask the server again for the attributes of kernels. */
void sing_kernels_doubt(void);

/* Modules or libraries may have been unloaded: ask the server again for the facts of functions. */
void sing_functions_doubt(void);

#endif
