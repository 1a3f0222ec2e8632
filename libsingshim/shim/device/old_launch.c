// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Launches that are set up piece by piece, as before CUDA 4. A function keeps the shape of its blocks, their shared memory and
 * its parameters until they are set again. All of this is in the program, and comes back with it; a launch is cuLaunchKernel's.
 */

#include "function.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES = 64, PARAMS_MOST = 4096 };

struct setup {
	struct setup *next;
	uint64_t function;
	unsigned int block[3], shared;
	size_t size; /* of the parameters */
	unsigned char params[PARAMS_MOST];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct setup *setups[PLACES];

/* Find the setup of a function, or make one. On success the caller holds lock. */
static CUresult lock_setup(CUfunction function, struct setup **found)
{
	const uint64_t handle = (uintptr_t)function;
	struct setup **const at = &setups[handle % PLACES], *s;
	struct sing_function *known;
	const CUresult r = sing_function_know(function, &known);

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&lock);
	for (s = *at; s != NULL && s->function != handle; s = s->next)
		;
	if (s == NULL) {
		s = calloc(1, sizeof(*s));
		if (s == NULL) {
			pthread_mutex_unlock(&lock);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		s->function = handle;
		s->next = *at;
		*at = s;
	}
	*found = s;
	return CUDA_SUCCESS;
}

CUresult sing_cuFuncSetBlockShape(CUfunction function, int x, int y, int z)
{
	struct setup *s;
	CUresult r = x < 1 || y < 1 || z < 1 ? CUDA_ERROR_INVALID_VALUE : lock_setup(function, &s);

	if (r != CUDA_SUCCESS)
		return r;
	s->block[0] = (unsigned int)x;
	s->block[1] = (unsigned int)y;
	s->block[2] = (unsigned int)z;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}
SING_PUBLIC(cuFuncSetBlockShape);

CUresult sing_cuFuncSetSharedSize(CUfunction function, unsigned int n)
{
	struct setup *s;
	const CUresult r = lock_setup(function, &s);

	if (r != CUDA_SUCCESS)
		return r;
	s->shared = n;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}
SING_PUBLIC(cuFuncSetSharedSize);

CUresult sing_cuParamSetSize(CUfunction function, unsigned int n)
{
	struct setup *s;
	const CUresult r = n > PARAMS_MOST ? CUDA_ERROR_INVALID_VALUE : lock_setup(function, &s);

	if (r != CUDA_SUCCESS)
		return r;
	s->size = n;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}
SING_PUBLIC(cuParamSetSize);

CUresult sing_cuParamSetv(CUfunction function, int at, void *value, unsigned int n)
{
	struct setup *s;
	CUresult r;

	if (value == NULL || at < 0 || n > PARAMS_MOST || (unsigned int)at > PARAMS_MOST - n)
		return CUDA_ERROR_INVALID_VALUE;
	r = lock_setup(function, &s);
	if (r != CUDA_SUCCESS)
		return r;
	memcpy(s->params + at, value, n);
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}
SING_PUBLIC(cuParamSetv);

CUresult sing_cuParamSeti(CUfunction function, int at, unsigned int value)
{
	return sing_cuParamSetv(function, at, &value, sizeof(value));
}
SING_PUBLIC(cuParamSeti);

CUresult sing_cuParamSetf(CUfunction function, int at, float value)
{
	return sing_cuParamSetv(function, at, &value, sizeof(value));
}
SING_PUBLIC(cuParamSetf);

CUresult sing_cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream)
{
	enum { BUFFER_POINTER = 1, BUFFER_SIZE = 2 };
	struct setup s, *kept;
	void *extra[] = { (void *)BUFFER_POINTER, s.params, (void *)BUFFER_SIZE, &s.size, NULL };
	const CUresult r = width < 1 || height < 1 ? CUDA_ERROR_INVALID_VALUE : lock_setup(function, &kept);

	if (r != CUDA_SUCCESS)
		return r;
	s = *kept;
	pthread_mutex_unlock(&lock);
	return sing_cuLaunchKernel(function, (unsigned int)width, (unsigned int)height, 1, s.block[0], s.block[1], s.block[2], s.shared, stream, NULL,
				   s.size > 0 ? extra : NULL);
}
SING_PUBLIC(cuLaunchGridAsync);

CUresult sing_cuLaunchGrid(CUfunction function, int width, int height)
{
	return sing_cuLaunchGridAsync(function, width, height, NULL);
}
SING_PUBLIC(cuLaunchGrid);

CUresult sing_cuLaunch(CUfunction function)
{
	return sing_cuLaunchGridAsync(function, 1, 1, NULL);
}
SING_PUBLIC(cuLaunch);
