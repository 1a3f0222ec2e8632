// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Launches. When a kernel is known, a launch is a single posted message: it allocates no memory, and waits for no
 * answer.
 */

#include "context.h"
#include "device.h"
#include "function.h"
#include "refusal.h"
#include "stream.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* A block of parameters of up to so many bytes is put together on the stack. */
enum { BLOCK_SMALL = 4352 };

struct launch {
	CUfunction function;
	struct sing_shape shape;
	CUstream stream;
	void **params, **extra;
	const CUlaunchAttribute *attributes;
	unsigned int n;
};

/* The stream of a launch: NULL is the thread's own default stream. */
static CUstream own_stream(CUstream stream)
{
	return stream == NULL ? (CUstream)2 : stream;
}

static CUresult post_launch(const struct launch *l, const struct sing_function *f, const unsigned char *block)
{
	const struct sing_shape *const s = &l->shape;

	if (l->n == 0)
		return sing_send_launch(0, f->function, s->grid[0], s->grid[1], s->grid[2], s->block[0], s->block[1], s->block[2], s->shared,
					l->stream, block, f->facts.bytes);
	return sing_send_launch_ex(0, f->function, s->grid[0], s->grid[1], s->grid[2], s->block[0], s->block[1], s->block[2], s->shared,
				   l->stream, block, f->facts.bytes, l->attributes, l->n);
}

/* The same with a block of parameters that is too long for the stack. */
__attribute__((noinline)) static CUresult launch_large(const struct launch *l, const struct sing_function *f)
{
	unsigned char *const block = malloc(f->facts.bytes);
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	if (block != NULL)
		r = sing_function_params(f, l->params, l->extra, block);
	if (r == CUDA_SUCCESS)
		r = post_launch(l, f, block);
	free(block);
	return r;
}

static CUresult launch_kernel(const struct launch *l)
{
	unsigned char block[BLOCK_SMALL];
	struct sing_function *f;
	CUresult r = sing_function_know(l->function, &f);

	if (r != CUDA_SUCCESS)
		return r;
	if (sing_current == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	if ((uint64_t)(uintptr_t)f->facts.context != sing_current->handle ||
	    !sing_stream_serves((uint64_t)(uintptr_t)l->stream, sing_current->handle))
		return CUDA_ERROR_INVALID_HANDLE;
	r = sing_function_check(f, &l->shape);
	if (r != CUDA_SUCCESS)
		return r;
	if (f->facts.bytes > sizeof(block))
		return launch_large(l, f);
	r = sing_function_params(f, l->params, l->extra, block);
	return r == CUDA_SUCCESS ? post_launch(l, f, block) : r;
}

CUresult sing_cuLaunchKernel(CUfunction function, unsigned int gridX, unsigned int gridY, unsigned int gridZ, unsigned int blockX,
			     unsigned int blockY, unsigned int blockZ, unsigned int shared, CUstream stream, void *params, void *extra)
{
	const struct launch l = {
		.function = function,
		.shape = { { gridX, gridY, gridZ }, { blockX, blockY, blockZ }, shared, false },
		.stream = stream,
		.params = params,
		.extra = extra,
	};

	return launch_kernel(&l);
}
SING_PUBLIC(cuLaunchKernel);

CUresult sing_cuLaunchKernel_ptsz(CUfunction function, unsigned int gridX, unsigned int gridY, unsigned int gridZ, unsigned int blockX,
				  unsigned int blockY, unsigned int blockZ, unsigned int shared, CUstream stream, void *params,
				  void *extra)
{
	return sing_cuLaunchKernel(function, gridX, gridY, gridZ, blockX, blockY, blockZ, shared, own_stream(stream), params, extra);
}
SING_PUBLIC(cuLaunchKernel_ptsz);

/*
 * Check the size of a cluster: on a device without clusters each cluster is a single block. The driver checks
 * whether the kernel can have clusters of that many blocks when the launch is carried out.
 */
static CUresult check_cluster(const struct launch *l, const CUlaunchAttributeValue *v)
{
	enum { MOST = 16 }; /* blocks of a cluster, on any device so far */
	const uint64_t blocks = sing_cluster_blocks(v);
	uint32_t of[3];
	int has = 0;

	if (blocks == 1)
		return CUDA_SUCCESS;
	if (sing_current == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (sing_device_attribute(sing_current->device, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, &has) != CUDA_SUCCESS || !has || blocks > MOST)
		return CUDA_ERROR_INVALID_CLUSTER_SIZE;
	memcpy(of, v->word, sizeof(of));
	for (int i = 0; i < 3; ++i)
		if (of[i] > 1 && l->shape.grid[i] % of[i] != 0)
			return CUDA_ERROR_INVALID_CLUSTER_SIZE;
	return CUDA_SUCCESS;
}

/* Check the attributes of a launch. Attributes that are only hints are sent as they are. */
static CUresult check_attributes(struct launch *l)
{
	if (l->n > 0 && l->attributes == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < l->n; ++i) {
		const CUlaunchAttribute *const a = &l->attributes[i];
		CUresult r = CUDA_SUCCESS;

		switch (a->id) {
		case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
			l->shape.cooperative = (int)a->value.word[0] != 0;
			break;
		case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
		case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
			r = check_cluster(l, &a->value);
			break;
		case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
		case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
			r = SING_REFUSE("CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT", "an event in the middle of a kernel");
			break;
		case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
			r = SING_REFUSE("CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE", "graphs that kernels change");
			break;
		default:
			if (a->id < 0 || a->id > CU_LAUNCH_ATTRIBUTE_SHARED_MEMORY_MODE)
				r = CUDA_ERROR_INVALID_VALUE;
		}
		if (r != CUDA_SUCCESS)
			return r;
	}
	return CUDA_SUCCESS;
}

static CUresult launch_ex(const struct sing_launch_config *c, CUstream stream, CUfunction function, void *params, void *extra)
{
	struct launch l = {
		.function = function,
		.shape = { { c->grid[0], c->grid[1], c->grid[2] }, { c->block[0], c->block[1], c->block[2] }, c->shared, false },
		.stream = stream,
		.params = params,
		.extra = extra,
		.attributes = c->attributes,
		.n = c->n,
	};
	const CUresult r = check_attributes(&l);

	return r == CUDA_SUCCESS ? launch_kernel(&l) : r;
}

CUresult sing_cuLaunchKernelEx(void *config, CUfunction function, void *params, void *extra)
{
	const struct sing_launch_config *const c = config;

	return c == NULL ? CUDA_ERROR_INVALID_VALUE : launch_ex(c, c->stream, function, params, extra);
}
SING_PUBLIC(cuLaunchKernelEx);

CUresult sing_cuLaunchKernelEx_ptsz(void *config, CUfunction function, void *params, void *extra)
{
	const struct sing_launch_config *const c = config;

	return c == NULL ? CUDA_ERROR_INVALID_VALUE : launch_ex(c, own_stream(c->stream), function, params, extra);
}
SING_PUBLIC(cuLaunchKernelEx_ptsz);

CUresult sing_cuLaunchCooperativeKernel(CUfunction function, unsigned int gridX, unsigned int gridY, unsigned int gridZ,
					unsigned int blockX, unsigned int blockY, unsigned int blockZ, unsigned int shared,
					CUstream stream, void *params)
{
	static const CUlaunchAttribute together = { .id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value = { { 1 } } };
	const struct launch l = {
		.function = function,
		.shape = { { gridX, gridY, gridZ }, { blockX, blockY, blockZ }, shared, true },
		.stream = stream,
		.params = params,
		.attributes = &together,
		.n = 1,
	};

	return launch_kernel(&l);
}
SING_PUBLIC(cuLaunchCooperativeKernel);

CUresult sing_cuLaunchCooperativeKernel_ptsz(CUfunction function, unsigned int gridX, unsigned int gridY, unsigned int gridZ,
					     unsigned int blockX, unsigned int blockY, unsigned int blockZ, unsigned int shared,
					     CUstream stream, void *params)
{
	return sing_cuLaunchCooperativeKernel(function, gridX, gridY, gridZ, blockX, blockY, blockZ, shared, own_stream(stream), params);
}
SING_PUBLIC(cuLaunchCooperativeKernel_ptsz);
