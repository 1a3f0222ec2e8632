// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "function.h"

#include "context.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/*
 * The facts of functions, found by handle. A kernel is a different function in each context: the entry of a
 * kernel is found by handle and context, and names the function. Entries are put in front and never taken out,
 * so that a launch needs no lock to find an entry; handles count from 1 and are never used a second time, so
 * that they fill the table evenly.
 */
enum { PLACES = 4096 };

struct known {
	uint64_t handle, context;
	_Atomic uint32_t asked;		/* the value of doubts when the server was asked */
	_Atomic(struct known *) is;	/* of a kernel: its function */
	struct known *next;
	struct sing_function f;		/* of a function */
	struct sing_param param[];
};

static _Atomic(struct known *) places[PLACES];
static _Atomic uint32_t doubts;

/* MANY: the most parameters that a kernel can have, if each is a single byte. */
enum { FEW = 64, MANY = 32768 };

void sing_functions_doubt(void)
{
	atomic_fetch_add_explicit(&doubts, 1, memory_order_relaxed);
}

static bool is_fresh(const struct known *k)
{
	return atomic_load_explicit(&k->asked, memory_order_relaxed) == atomic_load_explicit(&doubts, memory_order_relaxed);
}

/* A function belongs to a single context, so the context is not compared. */
static struct known *look_from(struct known *k, uint64_t handle, uint64_t context)
{
	while (k != NULL && (k->handle != handle ||
			     (k->context != context && atomic_load_explicit(&k->is, memory_order_acquire) != NULL)))
		k = k->next;
	return k;
}

static struct known *find_known(uint64_t handle, uint64_t context)
{
	return look_from(atomic_load_explicit(&places[handle % PLACES], memory_order_acquire), handle, context);
}

/* Add k, unless another thread has added such an entry: then free k, and return the other entry. */
static struct known *add_known(struct known *k)
{
	_Atomic(struct known *) *const place = &places[k->handle % PLACES];

	k->next = atomic_load_explicit(place, memory_order_acquire);
	for (;;) {
		struct known *const there = look_from(k->next, k->handle, k->context);

		if (there != NULL) {
			free(k);
			return there;
		}
		if (atomic_compare_exchange_weak_explicit(place, &k->next, k, memory_order_release, memory_order_acquire))
			return k;
	}
}

/* A function in the server's description. */
struct described {
	sing_facts facts;
	unsigned int n, some[2][FEW], *offsets, *sizes;
};

static CUresult ask_facts(CUfunction function, struct described *d)
{
	CUresult r;

	d->offsets = d->some[0];
	d->sizes = d->some[1];
	d->n = FEW;
	r = sing_send_function_facts(0, function, &d->facts, d->offsets, d->sizes, &d->n);
	if (r == CUDA_SUCCESS && d->n > FEW) {
		const unsigned int n = d->n;

		if (n > MANY)
			return CUDA_ERROR_UNKNOWN;
		d->offsets = malloc(2 * n * sizeof(*d->offsets));
		if (d->offsets == NULL)
			return CUDA_ERROR_OUT_OF_MEMORY;
		d->sizes = d->offsets + n;
		r = sing_send_function_facts(0, function, &d->facts, d->offsets, d->sizes, &d->n);
		if (r == CUDA_SUCCESS && d->n != n)
			r = CUDA_ERROR_UNKNOWN;
	}
	/* If a parameter ended behind the block, a launch would write there. */
	for (unsigned int i = 0; r == CUDA_SUCCESS && i < d->n; ++i)
		if ((uint64_t)d->offsets[i] + d->sizes[i] > d->facts.bytes)
			r = CUDA_ERROR_UNKNOWN;
	return r;
}

static struct known *new_function(CUfunction function, const struct described *d, uint32_t when)
{
	struct known *const k = malloc(sizeof(*k) + d->n * sizeof(k->param[0]));

	if (k == NULL)
		return NULL;
	*k = (struct known){
		.handle = (uint64_t)(uintptr_t)function,
		.asked = when,
		.f = { .function = function, .facts = d->facts, .shared = d->facts.shared, .params = d->n, .param = k->param },
	};
	for (unsigned int i = 0; i < d->n; ++i)
		k->param[i] = (struct sing_param){ d->offsets[i], d->sizes[i] };
	return add_known(k);
}

/* Ask the server about a function. *known is the function's entry, or NULL: then an entry is made. */
static CUresult learn_facts(CUfunction function, struct known **known)
{
	const uint32_t when = atomic_load_explicit(&doubts, memory_order_relaxed);
	struct known *k = *known;
	struct described d;
	CUresult r = ask_facts(function, &d);

	if (r == CUDA_SUCCESS && k == NULL) {
		k = new_function(function, &d, when);
		if (k == NULL)
			r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (d.offsets != d.some[0])
		free(d.offsets);
	if (r != CUDA_SUCCESS)
		return r;
	atomic_store_explicit(&k->f.shared, d.facts.shared, memory_order_relaxed);
	atomic_store_explicit(&k->asked, when, memory_order_relaxed);
	*known = k;
	return CUDA_SUCCESS;
}

/* The same for a kernel. The server makes the kernel's function in a context at the first question. */
static CUresult learn_kernel(uint64_t handle, uint64_t context, struct known **known)
{
	const uint32_t when = atomic_load_explicit(&doubts, memory_order_relaxed);
	struct known *k = *known, *is;
	CUfunction function;
	CUresult r = sing_send_cuKernelGetFunction(0, &function, (CUkernel)handle);

	if (r != CUDA_SUCCESS)
		return r;
	is = find_known((uint64_t)(uintptr_t)function, context);
	r = is != NULL && is_fresh(is) ? CUDA_SUCCESS : learn_facts(function, &is);
	if (r != CUDA_SUCCESS)
		return r;
	if (k == NULL) {
		k = malloc(sizeof(*k));
		if (k == NULL)
			return CUDA_ERROR_OUT_OF_MEMORY;
		*k = (struct known){ .handle = handle, .context = context, .asked = when, .is = is };
		k = add_known(k);
	}
	atomic_store_explicit(&k->is, is, memory_order_release);
	atomic_store_explicit(&k->asked, when, memory_order_relaxed);
	*known = k;
	return CUDA_SUCCESS;
}

CUresult sing_function_know(CUfunction function, struct sing_function **known)
{
	const uint64_t handle = (uint64_t)(uintptr_t)function, context = sing_current == NULL ? 0 : sing_current->handle;
	struct known *k = find_known(handle, context), *is;

	if (__builtin_expect(k == NULL || !is_fresh(k), 0)) {
		CUresult r = CUDA_ERROR_INVALID_HANDLE;

		if (k == NULL || atomic_load_explicit(&k->is, memory_order_relaxed) == NULL)
			r = learn_facts(function, &k);
		if (r == CUDA_ERROR_INVALID_HANDLE)
			r = learn_kernel(handle, context, &k);
		if (r != CUDA_SUCCESS)
			return r;
	}
	is = atomic_load_explicit(&k->is, memory_order_acquire);
	*known = is == NULL ? &k->f : &is->f;
	return CUDA_SUCCESS;
}

void sing_function_shares(CUfunction function, uint32_t bytes)
{
	struct known *k = find_known((uint64_t)(uintptr_t)function, sing_current == NULL ? 0 : sing_current->handle), *is;

	if (k == NULL)
		return;
	is = atomic_load_explicit(&k->is, memory_order_acquire);
	atomic_store_explicit(is == NULL ? &k->f.shared : &is->f.shared, bytes, memory_order_relaxed);
}

/*
 * The blocks of a cooperative launch must all fit on the device at once. The last answer is kept in a word: 16
 * bits for the threads, 24 for shared + 1, 24 for the blocks.
 */
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
	/*
	 * The product of two sides cannot overflow, nor can the product with the third where the first is small
	 * enough.
	 */
	const uint64_t plane = (uint64_t)s->grid[0] * s->grid[1], most = fits & 0xffffff;

	return plane <= most && plane * s->grid[2] <= most ? CUDA_SUCCESS : CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
}

CUresult sing_function_check(struct sing_function *f, const struct sing_shape *s)
{
	const sing_facts *const k = &f->facts;
	uint64_t threads;

	/* For 0, 0 - 1u is above any limit. */
	for (int i = 0; i < 3; ++i)
		if (s->grid[i] - 1u >= k->grid[i] || s->block[i] - 1u >= k->block[i])
			return CUDA_ERROR_INVALID_VALUE;
	threads = (uint64_t)s->block[0] * s->block[1];
	if (threads > k->anyThreads || (threads *= s->block[2]) > k->anyThreads)
		return CUDA_ERROR_INVALID_VALUE;
	if (threads > k->threads) /* the limit is from the kernel's own code, or from its registers */
		return threads > k->byRegisters ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES : CUDA_ERROR_INVALID_VALUE;
	if (s->shared > atomic_load_explicit(&f->shared, memory_order_relaxed))
		return CUDA_ERROR_INVALID_VALUE;
	if (k->required[0] != 0 && memcmp(k->required, s->block, sizeof(s->block)) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	return s->cooperative ? check_cooperative(f, s, threads) : CUDA_SUCCESS;
}

/* The markers in extra. */
enum { EXTRA_END = 0, EXTRA_BUFFER = 1, EXTRA_SIZE = 2 };

/* Copy the block of parameters that the program has put together. */
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
		/* The gaps between parameters are sent too, as zeros. */
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
