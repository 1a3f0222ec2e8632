// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "fake.h"

CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz,
			unsigned int shared, CUstream stream, void *params, void *extra)
{
	CALL(" %s, grid %u %u %u, block %u %u %u, shared %u, in stream %d%s", f->name, gx, gy, gz, bx, by, bz, shared, stream->id, extra ? ", extra" : "");
	return (launch(f, (unsigned int[]){ gx, gy, gz }, (unsigned int[]){ bx, by, bz }, stream, params));
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
				   unsigned int bz, unsigned int shared, CUstream stream, void *params)
{
	CALL(" %s, grid %u %u %u, block %u %u %u, shared %u, in stream %d", f->name, gx, gy, gz, bx, by, bz, shared, stream->id);
	return (launch(f, (unsigned int[]){ gx, gy, gz }, (unsigned int[]){ bx, by, bz }, stream, params));
}

/* " 4=2:1" for each attribute: its number, and the first words of its value. */
static const char *say_attributes(const struct launch_config *c, char *out, size_t n)
{
	size_t k = 0;

	out[0] = 0;
	for (unsigned int i = 0; i < c->n && k < n; ++i)
		k += snprintf(out + k, n - k, " %d=%llx:%llx", c->attributes[i].id, (unsigned long long)c->attributes[i].value[0], (unsigned long long)c->attributes[i].value[1]);
	return (out);
}

/* How many blocks a cluster of the launch has. */
static unsigned int cluster_blocks(const struct launch_config *c)
{
	for (unsigned int i = 0; i < c->n; ++i)
		if (c->attributes[i].id == 4)
			return ((uint32_t)c->attributes[i].value[0] * (uint32_t)(c->attributes[i].value[0] >> 32) * (uint32_t)c->attributes[i].value[1]);
	return (1);
}

CUresult cuLaunchKernelEx(void *config, CUfunction f, void *params, void *extra)
{
	const struct launch_config *c = config;
	char text[256];

	CALL(" %s, grid %u %u %u, block %u %u %u, shared %u, in stream %d, attributes%s%s", f->name, c->grid[0], c->grid[1], c->grid[2], c->block[0],
	     c->block[1], c->block[2], c->shared, c->stream->id, say_attributes(c, text, sizeof(text)), extra ? ", extra" : "");
	return (launch(f, c->grid, c->block, c->stream, params));
}

CUresult cuOccupancyMaxActiveClusters(int *n, CUfunction f, void *config)
{
	const struct launch_config *c = config;
	char text[256];

	CALL(" %s, grid %u, block %u, shared %u, attributes%s", f->name, c->grid[0], c->block[0], c->shared, say_attributes(c, text, sizeof(text)));
	*n = 132 / cluster_blocks(c);
	return (OK);
}

CUresult cuOccupancyMaxPotentialClusterSize(int *size, CUfunction f, void *config)
{
	const struct launch_config *c = config;
	char text[256];

	CALL(" %s, grid %u, block %u, shared %u, attributes%s", f->name, c->grid[0], c->block[0], c->shared, say_attributes(c, text, sizeof(text)));
	*size = 8;
	return (OK);
}
