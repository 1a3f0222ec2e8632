// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Contexts, and each thread's stack of them. */
#include "context.h"

#include "array.h"
#include "attach.h"
#include "export.h"
#include "gen_abi.h"
#include "missed.h"
#include "transport.h"
#include "variables.h"

#include <pthread.h>
#include <stdlib.h>

_Thread_local struct sing_context *sing_current __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* The contexts below the current context on this thread's stack; freed when the thread ends. */
struct below {
	unsigned depth, room;
	struct sing_context *contexts[];
};

static _Thread_local struct below *below __attribute__((tls_model("initial-exec")));
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Handles number the contexts, so a handle gives the context's place. Reading needs no lock. */
enum { CHUNK = 64, CHUNKS = 1024 };
static _Atomic(struct sing_context *) chunks[CHUNKS];

static struct sing_context *find_place(uint64_t handle, bool make)
{
	const uint64_t n = sing_context_number(handle);
	_Atomic(struct sing_context *) *chunk;
	struct sing_context *c, *none = NULL;

	if (handle >> 40 != SING_CLASS_CONTEXT + 1 || n >= CHUNK * CHUNKS)
		return NULL;
	chunk = &chunks[n / CHUNK];
	c = atomic_load_explicit(chunk, memory_order_acquire);
	if (c == NULL && make) {
		c = calloc(CHUNK, sizeof(*c));
		if (c != NULL && !atomic_compare_exchange_strong(chunk, &none, c)) {
			free(c);
			c = none;
		}
	}
	return c == NULL ? NULL : c + n % CHUNK;
}

struct sing_context *sing_context_find(uint64_t handle)
{
	struct sing_context *c = find_place(handle, false);

	return c != NULL && c->handle == handle ? c : NULL;
}

bool sing_context_name(uint64_t handle, int device, bool primary)
{
	struct sing_context *c = find_place(handle, true);

	if (c == NULL)
		return false;
	c->device = device;
	c->primary = primary;
	c->handle = handle;
	return true;
}

bool sing_context_add(uint64_t handle, int device, bool primary)
{
	if (!sing_context_name(handle, device, primary))
		return false;
	atomic_store_explicit(&sing_context_find(handle)->alive, true, memory_order_release);
	return true;
}

int sing_context_check(void)
{
	if (!sing_is_initialized())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (sing_current == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	return atomic_load_explicit(&sing_current->alive, memory_order_relaxed) ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* The context of a handle that a program gives, if the context can be used. */
static CUresult check_context(CUcontext ctx, struct sing_context **c)
{
	if (!sing_is_initialized())
		return CUDA_ERROR_NOT_INITIALIZED;
	*c = sing_context_find((uintptr_t)ctx);
	return *c != NULL && atomic_load_explicit(&(*c)->alive, memory_order_relaxed) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static void make_key(void)
{
	if (pthread_key_create(&key, free) != 0)
		abort();
}

static CUresult push_context(struct sing_context *c)
{
	struct below *b = below;

	if (sing_current != NULL) {
		if (b == NULL || b->depth == b->room) {
			const unsigned room = b == NULL ? 6 : b->room * 2;

			b = realloc(b, sizeof(*b) + room * sizeof(b->contexts[0]));
			if (b == NULL)
				return CUDA_ERROR_OUT_OF_MEMORY;
			if (below == NULL)
				b->depth = 0;
			b->room = room;
			below = b;
			pthread_once(&once, make_key);
			(void)pthread_setspecific(key, b);
		}
		b->contexts[b->depth++] = sing_current;
	}
	sing_current = c;
	return CUDA_SUCCESS;
}

static void pop_context(void)
{
	sing_current = below == NULL || below->depth == 0 ? NULL : below->contexts[--below->depth];
}

CUresult sing_cuCtxCreate_v2(CUcontext *ctx, unsigned int flags, CUdevice dev)
{
	CUcontext made;
	CUresult r;

	if (ctx == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = sing_send_cuCtxCreate_v2(0, &made, flags, dev);
	if (r != CUDA_SUCCESS)
		return r;
	r = sing_context_add((uintptr_t)made, dev, false) ? push_context(sing_context_find((uintptr_t)made)) : CUDA_ERROR_OUT_OF_MEMORY;
	if (r == CUDA_SUCCESS)
		*ctx = made;
	else
		(void)sing_send_cuCtxDestroy_v2(0, made);
	return r;
}
SING_PUBLIC(cuCtxCreate_v2);

CUresult sing_cuCtxCreate_v3(CUcontext *ctx, void *params, int n, unsigned int flags, CUdevice dev)
{
	if (n < 0 || (n > 0 && params == NULL))
		return CUDA_ERROR_INVALID_VALUE;
	/* Execution affinity belongs to MPS, which is not used. */
	return n > 0 ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : sing_cuCtxCreate_v2(ctx, flags, dev);
}
SING_PUBLIC(cuCtxCreate_v3);

CUresult sing_cuCtxCreate_v4(CUcontext *ctx, void *params, unsigned int flags, CUdevice dev)
{
	const struct {
		void *affinity;
		int n;
		void *graphics;
	} *p = params;
	static _Atomic bool said;

	if (p != NULL && p->graphics != NULL) {
		if (!atomic_exchange(&said, true))
			sing_missed("cuCtxCreate_v4", "a context for graphics needs a window system's driver");
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	return p == NULL ? sing_cuCtxCreate_v2(ctx, flags, dev) : sing_cuCtxCreate_v3(ctx, p->affinity, p->n, flags, dev);
}
SING_PUBLIC(cuCtxCreate_v4);

/* The context stays current in other threads, which get an error at their next call. */
CUresult sing_cuCtxDestroy_v2(CUcontext ctx)
{
	struct sing_context *c;
	CUresult r = check_context(ctx, &c);

	if (r != CUDA_SUCCESS)
		return r;
	if (c->primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	r = sing_send_cuCtxDestroy_v2(0, ctx);
	if (r != CUDA_SUCCESS)
		return r;
	atomic_store(&c->alive, false);
	if (sing_current == c)
		pop_context();
	sing_arrays_ended(c->handle);
	sing_objects_ended(c->handle);
	sing_variables_ended(c->handle);
	sing_context_ended(c->handle);
	return CUDA_SUCCESS;
}
SING_PUBLIC(cuCtxDestroy_v2);

/* A context counts its users, as before CUDA 4: the thread that has made the context is the first. */
CUresult sing_cuCtxAttach(CUcontext *ctx, unsigned int flags)
{
	const CUresult r = sing_context_check();

	if (r != CUDA_SUCCESS)
		return r;
	if (ctx == NULL || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	atomic_fetch_add(&sing_current->attached, 1);
	*ctx = (CUcontext)(uintptr_t)sing_current->handle;
	return CUDA_SUCCESS;
}
SING_PUBLIC(cuCtxAttach);

CUresult sing_cuCtxDetach(CUcontext ctx)
{
	struct sing_context *c;
	unsigned int attached;
	const CUresult r = check_context(ctx, &c);

	if (r != CUDA_SUCCESS)
		return r;
	if (c != sing_current)
		return CUDA_ERROR_INVALID_CONTEXT;
	attached = atomic_load(&c->attached);
	while (attached > 0)
		if (atomic_compare_exchange_weak(&c->attached, &attached, attached - 1))
			return CUDA_SUCCESS;
	return sing_cuCtxDestroy_v2(ctx);
}
SING_PUBLIC(cuCtxDetach);

CUresult sing_cuCtxPushCurrent_v2(CUcontext ctx)
{
	struct sing_context *c;
	const CUresult r = check_context(ctx, &c);

	return r == CUDA_SUCCESS ? push_context(c) : r;
}
SING_PUBLIC(cuCtxPushCurrent_v2);

CUresult sing_cuCtxPopCurrent_v2(CUcontext *ctx)
{
	if (!sing_is_initialized())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (sing_current == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (ctx != NULL)
		*ctx = (CUcontext)(uintptr_t)sing_current->handle;
	pop_context();
	return CUDA_SUCCESS;
}
SING_PUBLIC(cuCtxPopCurrent_v2);

/* The context replaces the context on top of the stack; NULL pops that context. */
CUresult sing_cuCtxSetCurrent(CUcontext ctx)
{
	struct sing_context *c = NULL;
	CUresult r;

	if (ctx == NULL) {
		if (!sing_is_initialized())
			return CUDA_ERROR_NOT_INITIALIZED;
		pop_context();
		return CUDA_SUCCESS;
	}
	/*
	 * A primary context can be current before it is retained, and after: the runtime library counts on
	 * that.
	 */
	r = check_context(ctx, &c);
	if (r == CUDA_SUCCESS || (c != NULL && c->primary)) {
		sing_current = c;
		r = CUDA_SUCCESS;
	}
	return r;
}
SING_PUBLIC(cuCtxSetCurrent);

CUresult sing_cuCtxGetCurrent(CUcontext *ctx)
{
	if (!sing_is_initialized())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (ctx == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*ctx = sing_current == NULL ? NULL : (CUcontext)(uintptr_t)sing_current->handle;
	return CUDA_SUCCESS;
}
SING_PUBLIC(cuCtxGetCurrent);

CUresult sing_cuCtxGetDevice(CUdevice *dev)
{
	const CUresult r = sing_context_check();

	if (r != CUDA_SUCCESS)
		return r;
	if (dev == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*dev = sing_current->device;
	return CUDA_SUCCESS;
}
SING_PUBLIC(cuCtxGetDevice);

CUresult sing_cuCtxGetDevice_v2(CUdevice *dev, CUcontext ctx)
{
	struct sing_context *c;
	CUresult r;

	if (ctx == NULL)
		return sing_cuCtxGetDevice(dev);
	r = check_context(ctx, &c);
	if (r != CUDA_SUCCESS)
		return r;
	if (dev == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*dev = c->device;
	return CUDA_SUCCESS;
}
SING_PUBLIC(cuCtxGetDevice_v2);

/* There is no profiler: the start and the end that a program marks for a profiler are ignored. */
CUresult sing_cuProfilerStart(void)
{
	return sing_context_check();
}
SING_PUBLIC(cuProfilerStart);

CUresult sing_cuProfilerStop(void)
{
	return sing_context_check();
}
SING_PUBLIC(cuProfilerStop);
