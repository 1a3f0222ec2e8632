// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "function.h"

#include "context.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/*
 * What is known, found by handle and, for kernels, which are one function in each context, by context. Entries are
 * put in front and never taken out, so that a launch looks without a lock; handles count from 1 and are never used
 * again, so that they fill the table evenly.
 */
enum { PLACES = 4096 };

struct known {
	struct sing_function f;
	uint64_t handle, context;
	_Atomic uint32_t asked; /* doubts when it was asked for */
	struct known *next;
	struct sing_param param[];
};

static _Atomic(struct known *) places[PLACES];
static _Atomic uint32_t doubts;

/* Most parameters that a kernel has: they would be of one byte. */
enum { FEW = 64, MANY = 32768 };

void sing_functions_doubt(void)
{
	atomic_fetch_add_explicit(&doubts, 1, memory_order_relaxed);
}

static struct known *look(uint64_t handle, uint64_t context)
{
	struct known *k = atomic_load_explicit(&places[handle % PLACES], memory_order_acquire);

	/* A function has one context, which is not asked for. */
	while (k != NULL && (k->handle != handle || (k->f.function != (CUfunction)handle && k->context != context)))
		k = k->next;
	return k;
}

/* Two threads may put the same in: that does no harm. */
static struct known *enter(CUfunction function, uint64_t handle, uint64_t context, const sing_facts *facts, uint32_t n,
			   const unsigned int *offsets, const unsigned int *sizes, uint32_t when)
{
	struct known *const k = malloc(sizeof(*k) + n * sizeof(k->param[0]));

	if (k == NULL)
		return NULL;
	*k = (struct known){
		.f = { .function = function, .facts = *facts, .shared = facts->shared, .params = n, .param = k->param },
		.handle = handle,
		.context = context,
		.asked = when,
	};
	for (uint32_t i = 0; i < n; ++i)
		k->param[i] = (struct sing_param){ offsets[i], sizes[i] };
	k->next = atomic_load_explicit(&places[handle % PLACES], memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&places[handle % PLACES], &k->next, k, memory_order_release, memory_order_relaxed))
		continue;
	return k;
}

/* Whether all parameters lie in the block. The server says so; a block that does not hold them would be written beyond. */
static bool lie_within(const sing_facts *facts, uint32_t n, const unsigned int *offsets, const unsigned int *sizes)
{
	for (uint32_t i = 0; i < n; ++i)
		if ((uint64_t)offsets[i] + sizes[i] > facts->bytes)
			return false;
	return true;
}

static CUresult ask(CUfunction function, sing_facts *facts, unsigned int **offsets, unsigned int **sizes, unsigned int *n)
{
	CUresult r = sing_send_function_facts(0, function, facts, *offsets, *sizes, n);

	if (r != CUDA_SUCCESS || *n <= FEW)
		return r;
	if (*n > MANY)
		return CUDA_ERROR_UNKNOWN;
	*offsets = malloc(2 * *n * sizeof(**offsets));
	if (*offsets == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*sizes = *offsets + *n;
	return sing_send_function_facts(0, function, facts, *offsets, *sizes, n);
}

/* Ask the server. before is what was known, or NULL. */
static CUresult learn(uint64_t handle, uint64_t context, struct known *before, struct sing_function **known)
{
	const uint32_t when = atomic_load_explicit(&doubts, memory_order_relaxed);
	unsigned int some[2][FEW], *offsets = some[0], *sizes = some[1], n = FEW;
	CUfunction function = (CUfunction)handle;
	sing_facts facts;
	struct known *k = before;
	CUresult r;

	r = ask(function, &facts, &offsets, &sizes, &n);
	if (r == CUDA_ERROR_INVALID_HANDLE && sing_send_cuKernelGetFunction(0, &function, (CUkernel)handle) == CUDA_SUCCESS) {
		n = FEW;
		r = ask(function, &facts, &offsets, &sizes, &n);
	}
	if (r == CUDA_SUCCESS && !lie_within(&facts, n, offsets, sizes))
		r = CUDA_ERROR_UNKNOWN;
	if (r == CUDA_SUCCESS && before != NULL && before->f.function == function) {
		atomic_store_explicit(&before->f.shared, facts.shared, memory_order_relaxed);
		atomic_store_explicit(&before->asked, when, memory_order_relaxed);
	} else if (r == CUDA_SUCCESS) {
		k = enter(function, handle, context, &facts, n, offsets, sizes, when);
		if (k == NULL)
			r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (offsets != some[0])
		free(offsets);
	if (r == CUDA_SUCCESS)
		*known = &k->f;
	return r;
}

CUresult sing_function_know(CUfunction function, struct sing_function **known)
{
	const uint64_t handle = (uint64_t)(uintptr_t)function, context = sing_current == NULL ? 0 : sing_current->handle;
	struct known *const k = look(handle, context);

	if (__builtin_expect(k == NULL || atomic_load_explicit(&k->asked, memory_order_relaxed) !=
						  atomic_load_explicit(&doubts, memory_order_relaxed), 0))
		return learn(handle, context, k, known);
	*known = &k->f;
	return CUDA_SUCCESS;
}

void sing_function_shares(CUfunction function, uint32_t bytes)
{
	struct known *const k = look((uint64_t)(uintptr_t)function, 0);

	if (k != NULL)
		atomic_store_explicit(&k->f.shared, bytes, memory_order_relaxed);
}

/* Cooperative blocks are all there at once. The last answer is kept: 16 bits threads, 24 shared + 1, 24 blocks. */
static CUresult check_cooperative(struct sing_function *f, const struct sing_shape *s, uint64_t threads)
{
	const uint64_t shape = threads << 48 | ((uint64_t)s->shared + 1) << 24;
	uint64_t fits = atomic_load_explicit(&f->fits, memory_order_relaxed);

	if (fits >> 24 != shape >> 24) {
		int blocks;
		const CUresult r = sing_send_cuOccupancyMaxActiveBlocksPerMultiprocessor(0, &blocks, f->function, (int)threads, s->shared);

		if (r != CUDA_SUCCESS)
			return r;
		fits = shape | ((uint64_t)(unsigned int)blocks * f->facts.multiprocessors & 0xffffff);
		atomic_store_explicit(&f->fits, fits, memory_order_relaxed);
	}
	/* The product of two of them cannot overflow, nor can it with the third where it is small enough. */
	const uint64_t plane = (uint64_t)s->grid[0] * s->grid[1], most = fits & 0xffffff;

	return plane <= most && plane * s->grid[2] <= most ? CUDA_SUCCESS : CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
}

CUresult sing_function_check(struct sing_function *f, const struct sing_shape *s)
{
	const sing_facts *const k = &f->facts;
	uint64_t threads;

	/* One less than 0 is more than any limit. */
	for (int i = 0; i < 3; ++i)
		if (s->grid[i] - 1u >= k->grid[i] || s->block[i] - 1u >= k->block[i])
			return CUDA_ERROR_INVALID_VALUE;
	threads = (uint64_t)s->block[0] * s->block[1];
	if (threads > k->anyThreads || (threads *= s->block[2]) > k->anyThreads)
		return CUDA_ERROR_INVALID_VALUE;
	if (threads > k->threads)
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	if (s->shared > atomic_load_explicit(&f->shared, memory_order_relaxed))
		return CUDA_ERROR_INVALID_VALUE;
	if (k->required[0] != 0 && memcmp(k->required, s->block, sizeof(s->block)) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	return s->cooperative ? check_cooperative(f, s, threads) : CUDA_SUCCESS;
}

/* The markers in extra. */
enum { EXTRA_END = 0, EXTRA_BUFFER = 1, EXTRA_SIZE = 2 };

/* The block as the program has made it. */
static CUresult take_extra(const struct sing_function *f, void **extra, unsigned char *room)
{
	const void *buffer = NULL;
	const size_t *size = NULL;

	for (; (uintptr_t)extra[0] != EXTRA_END; extra += 2) {
		if ((uintptr_t)extra[0] == EXTRA_BUFFER)
			buffer = extra[1];
		else if ((uintptr_t)extra[0] == EXTRA_SIZE)
			size = extra[1];
		else
			return CUDA_ERROR_INVALID_VALUE;
	}
	if (f->facts.bytes == 0)
		return CUDA_SUCCESS;
	if (buffer == NULL || size == NULL || *size < f->facts.bytes)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(room, buffer, f->facts.bytes);
	return CUDA_SUCCESS;
}

CUresult sing_function_params(const struct sing_function *f, void **params, void **extra, unsigned char *room)
{
	uint32_t end = 0;

	if (params != NULL && extra != NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (extra != NULL)
		return take_extra(f, extra, room);
	if (params == NULL)
		return f->params == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	for (uint32_t i = 0; i < f->params; ++i) {
		const struct sing_param p = f->param[i];

		if (params[i] == NULL)
			return CUDA_ERROR_INVALID_VALUE;
		/* What is between two is sent too. */
		if (p.offset > end)
			memset(room + end, 0, p.offset - end);
		end = p.offset + p.size;
		switch (p.size) {
		case 4:
			memcpy(room + p.offset, params[i], 4);
			break;
		case 8:
			memcpy(room + p.offset, params[i], 8);
			break;
		default:
			memcpy(room + p.offset, params[i], p.size);
		}
	}
	return CUDA_SUCCESS;
}
