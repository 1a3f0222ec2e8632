// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "stream.h"

#include "context.h"
#include "gen_abi.h"

#include <stdlib.h>

/*
 * The handle of a stream's context, or 0, by the number in the stream's handle. A stream
 * with a larger number is not in the table.
 */
enum { CHUNK = 1024, CHUNKS = 4096 };
static _Atomic(_Atomic uint64_t *) chunks[CHUNKS];

/* The number in a stream's handle. */
static uint64_t number_of(uint64_t handle)
{
	return (handle & 0xffffffffff) / SING_STREAM_STEP;
}

static bool is_stream(uint64_t handle)
{
	return handle >> 40 == SING_CLASS_STREAM + 1 && handle % SING_STREAM_STEP == 0;
}

static _Atomic uint64_t *find_place(uint64_t handle, bool make)
{
	const uint64_t n = number_of(handle);
	_Atomic uint64_t *c, *none = NULL;

	if (!is_stream(handle) || n >= (uint64_t)CHUNK * CHUNKS)
		return NULL;
	c = atomic_load_explicit(&chunks[n / CHUNK], memory_order_acquire);
	if (c == NULL && make) {
		c = calloc(CHUNK, sizeof(*c));
		if (c != NULL && !atomic_compare_exchange_strong(&chunks[n / CHUNK], &none, c)) {
			free(c);
			c = none;
		}
	}
	return c == NULL ? NULL : c + n % CHUNK;
}

void sing_stream_made(uint64_t handle)
{
	_Atomic uint64_t *p = sing_current == NULL ? NULL : find_place(handle, true);

	if (p != NULL)
		atomic_store_explicit(p, sing_current->handle, memory_order_release);
}

void sing_stream_ended(uint64_t handle)
{
	_Atomic uint64_t *p = find_place(handle, false);

	if (p != NULL)
		atomic_store_explicit(p, 0, memory_order_release);
}

bool sing_stream_serves(uint64_t handle, uint64_t context)
{
	_Atomic uint64_t *p;

	if (handle <= 2)
		return true;
	p = find_place(handle, false);
	if (p != NULL)
		return atomic_load_explicit(p, memory_order_relaxed) == context;
	/* Accept a stream that has no place in the table: the server checks it. */
	return is_stream(handle) && number_of(handle) >= (uint64_t)CHUNK * CHUNKS;
}

/* The default streams, 0 to 2, are streams of the current context. */
CUresult sing_cuStreamGetCtx(CUstream stream, CUcontext *ctx)
{
	const CUresult r = sing_context_check();
	uint64_t context;
	_Atomic uint64_t *p;

	if (r != CUDA_SUCCESS)
		return r;
	if (ctx == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	p = find_place((uintptr_t)stream, false);
	context = (uintptr_t)stream <= 2 ? sing_current->handle : p == NULL ? 0 : atomic_load_explicit(p, memory_order_acquire);
	if (context == 0)
		return CUDA_ERROR_INVALID_HANDLE;
	*ctx = (CUcontext)(uintptr_t)context;
	return CUDA_SUCCESS;
}
SING_PUBLIC(cuStreamGetCtx);

CUresult sing_cuStreamGetCtx_ptsz(CUstream stream, CUcontext *ctx)
{
	return sing_cuStreamGetCtx(stream, ctx);
}
SING_PUBLIC(cuStreamGetCtx_ptsz);

/* No stream is of a green context. */
CUresult sing_cuStreamGetCtx_v2(CUstream stream, CUcontext *ctx, void **green)
{
	CUresult r;

	if (green == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = sing_cuStreamGetCtx(stream, ctx);
	if (r == CUDA_SUCCESS)
		*green = NULL;
	return r;
}
SING_PUBLIC(cuStreamGetCtx_v2);

CUresult sing_cuStreamGetCtx_v2_ptsz(CUstream stream, CUcontext *ctx, void **green)
{
	return sing_cuStreamGetCtx_v2(stream, ctx, green);
}
SING_PUBLIC(cuStreamGetCtx_v2_ptsz);
