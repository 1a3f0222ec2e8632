// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The block size with which a multiprocessor has most threads at once, and how many clusters there can be. The server
 * tells how many blocks of a size fit; a function of the program may tell how much shared memory a block of that size
 * needs.
 */

#include "function.h"

static unsigned int least_of(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

CUresult sing_cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction function, void *need, size_t shared, int limit,
							unsigned int flags)
{
	size_t (*const needs)(int) = (size_t(*)(int))need;
	struct sing_function *f;
	unsigned int most = 0, best = 0, fit = 0, top, warp;
	CUresult r;

	if (grid == NULL || block == NULL || limit < 0 || flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
		return CUDA_ERROR_INVALID_VALUE;
	r = sing_function_know(function, &f);
	if (r != CUDA_SUCCESS)
		return r;
	warp = f->facts.warp;
	if (warp == 0)
		return CUDA_ERROR_UNKNOWN;
	top = least_of(f->facts.anyThreads, f->facts.threads);
	if (limit > 0)
		top = least_of(top, (unsigned int)limit);
	/* Sizes from the largest downwards, in whole warps; the first size is cut to the limit. */
	for (unsigned int up = (top + warp - 1) / warp * warp; up > 0 && most < f->facts.perMultiprocessor; up -= warp) {
		const unsigned int size = least_of(up, top);
		const size_t bytes = needs != NULL ? needs((int)size) : shared;
		int blocks = 0;

		r = sing_send_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(0, &blocks, f->function, (int)size, bytes, flags);
		if (r != CUDA_SUCCESS)
			return r;
		if (blocks > 0 && (unsigned int)blocks * size > most) {
			most = (unsigned int)blocks * size;
			best = size;
			fit = (unsigned int)blocks;
		}
	}
	*grid = (int)(fit * f->facts.multiprocessors);
	*block = (int)best;
	return CUDA_SUCCESS;
}
SING_PUBLIC(cuOccupancyMaxPotentialBlockSizeWithFlags);

CUresult sing_cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function, void *need, size_t shared, int limit)
{
	return sing_cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, need, shared, limit, CU_OCCUPANCY_DEFAULT);
}
SING_PUBLIC(cuOccupancyMaxPotentialBlockSize);

/* Check the arguments of a question about launches with clusters. */
static CUresult check_config(const void *out, const struct sing_launch_config *c)
{
	return out == NULL || c == NULL || (c->n > 0 && c->attributes == NULL) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult sing_cuOccupancyMaxActiveClusters(int *n, CUfunction function, void *config)
{
	const struct sing_launch_config *const c = config;
	struct sing_function *f;
	CUresult r = check_config(n, c);

	if (r == CUDA_SUCCESS)
		r = sing_function_know(function, &f);
	if (r == CUDA_SUCCESS)
		r = sing_send_active_clusters(0, n, f->function, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2],
					      c->shared, c->attributes, c->n);
	return r;
}
SING_PUBLIC(cuOccupancyMaxActiveClusters);

CUresult sing_cuOccupancyMaxPotentialClusterSize(int *size, CUfunction function, void *config)
{
	const struct sing_launch_config *const c = config;
	struct sing_function *f;
	CUresult r = check_config(size, c);

	if (r == CUDA_SUCCESS)
		r = sing_function_know(function, &f);
	if (r == CUDA_SUCCESS)
		r = sing_send_largest_cluster(0, size, f->function, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2],
					      c->shared, c->attributes, c->n);
	return r;
}
SING_PUBLIC(cuOccupancyMaxPotentialClusterSize);
