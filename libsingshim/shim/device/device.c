// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* cuInit, the facts of devices that programs ask for most, and the devices' primary contexts. */
#include "device.h"

#include "array.h"
#include "attach.h"
#include "context.h"
#include "export.h"
#include "gen_abi.h"
#include "pack.h"
#include "transport.h"
#include "variables.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int devices;

/* All attributes of a device, by their numbers. */
struct attributes {
	int values[CU_DEVICE_ATTRIBUTE_MAX];
};
static _Atomic(struct attributes *) attributes[SING_DEVICES];

/* A primary context: how often the context is retained, and how many may still be released after a reset. */
static struct primary {
	CUcontext context;
	unsigned long retained, owed;
	_Atomic uint64_t state; /* STATE_KNOWN, flags, and whether the context is active; 0: to be asked for */
} primaries[SING_DEVICES];

/* Programs ask for the state of a primary context before each of their calls. */
#define STATE_KNOWN ((uint64_t)1 << 63)
#define STATE_ACTIVE ((uint64_t)1 << 32)

CUresult sing_cuInit(unsigned int flags)
{
	int n = 0, version = 0;
	CUresult r = CUDA_SUCCESS;

	if (flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (sing_is_initialized())
		return CUDA_SUCCESS;
	if (sing_is_forked())
		return CUDA_ERROR_NOT_INITIALIZED;
	pthread_mutex_lock(&lock);
	if (!sing_is_initialized()) {
		r = sing_send_attach(0, flags, &n, &version);
		if (r == CUDA_SUCCESS && n <= 0)
			r = CUDA_ERROR_NO_DEVICE;
		if (r == CUDA_SUCCESS) {
			atomic_store(&devices, n < SING_DEVICES ? n : SING_DEVICES);
			sing_initialized();
		}
	}
	pthread_mutex_unlock(&lock);
	return r;
}
SING_PUBLIC(cuInit);

int sing_devices(void)
{
	return atomic_load(&devices);
}

static bool is_device(CUdevice dev)
{
	return dev >= 0 && dev < atomic_load_explicit(&devices, memory_order_relaxed);
}

int sing_device_attribute(int dev, int attribute, int *value)
{
	struct attributes *a = atomic_load_explicit(&attributes[dev], memory_order_acquire), *none = NULL;
	CUresult r;

	if (attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (a == NULL) {
		a = calloc(1, sizeof(*a));
		if (a == NULL)
			return CUDA_ERROR_OUT_OF_MEMORY;
		r = sing_send_device_attributes(0, dev, CU_DEVICE_ATTRIBUTE_MAX, a->values);
		if (r != CUDA_SUCCESS) {
			free(a);
			return r;
		}
		if (!atomic_compare_exchange_strong(&attributes[dev], &none, a)) {
			free(a);
			a = none;
		}
	}
	*value = a->values[attribute];
	return CUDA_SUCCESS;
}

CUresult sing_cuDeviceGetAttribute(int *value, int attribute, CUdevice dev)
{
	if (!sing_is_initialized())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (value == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	return is_device(dev) ? sing_device_attribute(dev, attribute, value) : CUDA_ERROR_INVALID_DEVICE;
}
SING_PUBLIC(cuDeviceGetAttribute);

/* Give the context a handle. */
static bool name_context(struct primary *p, CUdevice dev)
{
	uint64_t handle;

	if (p->context != NULL)
		return true;
	handle = sing_handle_new(SING_CLASS_CONTEXT);
	if (!sing_context_name(handle, dev, true))
		return false;
	p->context = (CUcontext)(uintptr_t)handle;
	return true;
}

int sing_primary_context(int dev, CUcontext *ctx)
{
	bool named;

	if (!sing_is_initialized())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (ctx == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_device(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&lock);
	named = name_context(&primaries[dev], dev);
	*ctx = primaries[dev].context;
	pthread_mutex_unlock(&lock);
	return named ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Make the context: the message has the handle that the context gets. */
static CUresult make_context(struct primary *p, CUdevice dev)
{
	unsigned char message[12];
	uint64_t handle;
	size_t got;
	int r;

	if (!name_context(p, dev))
		return CUDA_ERROR_OUT_OF_MEMORY;
	handle = (uintptr_t)p->context;
	(void)sing_put(sing_put(message, &handle, 8), &dev, 4);
	r = sing_call(SING_OP_cuDevicePrimaryCtxRetain, message, sizeof(message), NULL, 0, &got);
	if (r != 0)
		return r < 0 ? CUDA_ERROR_UNKNOWN : r;
	if (sing_context_add(handle, dev, true))
		return CUDA_SUCCESS;
	(void)sing_send_cuDevicePrimaryCtxRelease_v2(0, dev);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sing_cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev)
{
	CUresult r = CUDA_SUCCESS;
	struct primary *p;

	if (!sing_is_initialized())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (ctx == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_device(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	p = &primaries[dev];
	pthread_mutex_lock(&lock);
	if (p->retained == 0)
		r = make_context(p, dev);
	if (r == CUDA_SUCCESS) {
		++p->retained;
		atomic_store_explicit(&p->state, 0, memory_order_relaxed);
		*ctx = p->context;
	}
	pthread_mutex_unlock(&lock);
	return r;
}
SING_PUBLIC(cuDevicePrimaryCtxRetain);

/*
 * Take the lock, for the primary context of a device. The lock is not held after an error. unlock_primary releases the
 * lock, and tells of a context that has ended meanwhile, if there is one.
 */
static CUresult lock_primary(CUdevice dev, struct primary **p)
{
	if (!sing_is_initialized())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!is_device(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*p = &primaries[dev];
	pthread_mutex_lock(&lock);
	return CUDA_SUCCESS;
}

static void unlock_primary(CUcontext ended)
{
	pthread_mutex_unlock(&lock);
	if (ended != NULL)
		sing_context_ended((uintptr_t)ended);
}

/*
 * The context is destroyed, but not popped from any stack; a thread in which it is current gets an error at
 * its next call.
 */
static CUcontext end_context(struct primary *p)
{
	atomic_store(&sing_context_find((uintptr_t)p->context)->alive, false);
	atomic_store(&p->state, 0);
	p->retained = 0;
	/* Before the lock is released: a new context has the same handle. */
	sing_arrays_ended((uintptr_t)p->context);
	sing_objects_ended((uintptr_t)p->context);
	sing_variables_ended((uintptr_t)p->context);
	return p->context;
}

CUresult sing_cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	CUcontext gone = NULL;
	struct primary *p;
	CUresult r = lock_primary(dev, &p);

	if (r != CUDA_SUCCESS)
		return r;
	if (p->retained > 1) {
		--p->retained;
	} else if (p->retained == 1) {
		r = sing_send_cuDevicePrimaryCtxRelease_v2(0, dev);
		if (r == CUDA_SUCCESS)
			gone = end_context(p);
	} else if (p->owed > 0) {
		--p->owed; /* callers that retained the context before the reset may release it */
	} else {
		r = CUDA_ERROR_INVALID_CONTEXT;
	}
	unlock_primary(gone);
	return r;
}
SING_PUBLIC(cuDevicePrimaryCtxRelease_v2);

CUresult sing_cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
	struct primary *p;
	CUresult r = lock_primary(dev, &p);

	if (r != CUDA_SUCCESS)
		return r;
	r = sing_send_cuDevicePrimaryCtxSetFlags_v2(0, dev, flags);
	atomic_store(&p->state, 0);
	unlock_primary(NULL);
	return r;
}
SING_PUBLIC(cuDevicePrimaryCtxSetFlags_v2);

CUresult sing_cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
	CUresult r = CUDA_SUCCESS;
	struct primary *p;
	uint64_t state;

	if (!sing_is_initialized())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (flags == NULL || active == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_device(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	p = &primaries[dev];
	state = atomic_load_explicit(&p->state, memory_order_relaxed);
	if (state == 0) {
		pthread_mutex_lock(&lock); /* the functions that change the state hold the lock too */
		r = sing_send_cuDevicePrimaryCtxGetState(0, dev, flags, active);
		if (r == CUDA_SUCCESS)
			state = STATE_KNOWN | (*active ? STATE_ACTIVE : 0) | *flags;
		atomic_store_explicit(&p->state, state, memory_order_relaxed);
		pthread_mutex_unlock(&lock);
	}
	if (r == CUDA_SUCCESS) {
		*flags = (unsigned int)state;
		*active = (state & STATE_ACTIVE) != 0;
	}
	return r;
}
SING_PUBLIC(cuDevicePrimaryCtxGetState);

CUresult sing_cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	CUcontext gone = NULL;
	struct primary *p;
	CUresult r = lock_primary(dev, &p);

	if (r != CUDA_SUCCESS)
		return r;
	if (p->retained > 0) {
		const unsigned long owed = p->owed + p->retained;

		r = sing_send_cuDevicePrimaryCtxReset_v2(0, dev);
		if (r == CUDA_SUCCESS) {
			gone = end_context(p);
			p->owed = owed;
		}
	}
	unlock_primary(gone);
	return r;
}
SING_PUBLIC(cuDevicePrimaryCtxReset_v2);
