// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Managed memory: pinned memory that all devices of the program have mapped, so that each access of either side is seen by the
 * other, as with a device that has concurrent managed access. Programs cannot choose where the pages are: advice and
 * prefetches are checked, and have no effect. Only software GPUs say that they have managed memory.
 */
#include "attach.h"
#include "capture.h"
#include "context.h"
#include "copy.h"
#include "hostmem.h"
#include "refusal.h"

enum { ATTACH_GLOBAL = 1, ATTACH_HOST = 2, ATTACH_SINGLE = 4 };
enum { MANAGED_MEMORY = 83, ON_CPU = -1, ADVICE_MOST = 6 };

static bool is_managed(CUdeviceptr at, size_t n, struct sing_pinned *what)
{
	return n > 0 && sing_is_pinned(at, n, what) && what->managed;
}

CUresult sing_cuMemAllocManaged(CUdeviceptr *ptr, size_t n, unsigned int flags)
{
	uintptr_t at;
	int has = 0;
	CUresult r = sing_context_check();

	if (r != CUDA_SUCCESS)
		return r;
	if (ptr == NULL || n == 0 || (flags != ATTACH_GLOBAL && flags != ATTACH_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	r = sing_cuDeviceGetAttribute(&has, MANAGED_MEMORY, sing_current->device);
	if (r != CUDA_SUCCESS)
		return r;
	if (has)
		r = sing_pinned_allocate(&at, n);
	if (!has || r == CUDA_ERROR_NOT_SUPPORTED)
		return SING_REFUSE("cuMemAllocManaged", has ? "the device server may not map memory of this process" :
							      "the pages of managed memory move without a call, so it cannot be captured; use cuMemAlloc");
	if (r == CUDA_SUCCESS)
		*ptr = at;
	return r;
}
SING_PUBLIC(cuMemAllocManaged);

CUresult sing_cuMemFree_v2(CUdeviceptr ptr)
{
	struct sing_pinned what;
	CUresult r;

	if (ptr == 0 || !is_managed(ptr, 1, &what))
		return sing_send_cuMemFree_v2(0, ptr);
	r = sing_context_check();
	if (r != CUDA_SUCCESS)
		return r;
	return what.begin == ptr && !what.variables ? sing_pinned_free(&what) : CUDA_ERROR_INVALID_VALUE;
}
SING_PUBLIC(cuMemFree_v2);

/* Whether there is such a device, or the CPU. */
static CUresult check_device(int dev)
{
	int unused;

	return dev == ON_CPU ? CUDA_SUCCESS : sing_cuDeviceGetAttribute(&unused, MANAGED_MEMORY, dev);
}

static CUresult check_location(CUmemLocation where)
{
	switch (where.type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return where.id < 0 ? CUDA_ERROR_INVALID_DEVICE : check_device(where.id);
	case CU_MEM_LOCATION_TYPE_HOST:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult sing_cuMemAdvise_v2(CUdeviceptr ptr, size_t n, int advice, CUmemLocation where)
{
	struct sing_pinned what;
	const CUresult r = sing_context_check();

	if (r != CUDA_SUCCESS)
		return r;
	if (advice < 1 || advice > ADVICE_MOST || !is_managed(ptr, n, &what))
		return CUDA_ERROR_INVALID_VALUE;
	/* Advice on data that is mostly read names no place. */
	return advice <= 2 ? CUDA_SUCCESS : check_location(where);
}
SING_PUBLIC(cuMemAdvise_v2);

static CUmemLocation location_of(CUdevice dev)
{
	const CUmemLocation where = { dev == ON_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE, dev == ON_CPU ? 0 : dev };

	return where;
}

CUresult sing_cuMemAdvise(CUdeviceptr ptr, size_t n, int advice, CUdevice dev)
{
	return sing_cuMemAdvise_v2(ptr, n, advice, location_of(dev));
}
SING_PUBLIC(cuMemAdvise);

/* Whether there is such a stream, which does not capture: work of this kind is never captured. */
static CUresult check_stream(CUstream stream, bool per_thread)
{
	unsigned int unused;
	CUresult r = sing_context_check();

	if (r == CUDA_SUCCESS && sing_captures())
		r = sing_capture_refuse(stream, per_thread);
	return r == CUDA_SUCCESS && stream != NULL ? sing_send_cuStreamGetFlags(per_thread, stream, &unused) : r;
}

static CUresult check_prefetch(CUdeviceptr ptr, size_t n, CUmemLocation where, unsigned int flags, CUstream stream, bool per_thread)
{
	struct sing_pinned what;
	const CUresult r = check_stream(stream, per_thread);

	if (r != CUDA_SUCCESS)
		return r;
	return flags == 0 && is_managed(ptr, n, &what) ? check_location(where) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sing_cuMemPrefetchAsync(CUdeviceptr ptr, size_t n, CUdevice dev, CUstream stream)
{
	return check_prefetch(ptr, n, location_of(dev), 0, stream, false);
}
SING_PUBLIC(cuMemPrefetchAsync);

CUresult sing_cuMemPrefetchAsync_ptsz(CUdeviceptr ptr, size_t n, CUdevice dev, CUstream stream)
{
	return check_prefetch(ptr, n, location_of(dev), 0, stream, true);
}
SING_PUBLIC(cuMemPrefetchAsync_ptsz);

CUresult sing_cuMemPrefetchAsync_v2(CUdeviceptr ptr, size_t n, CUmemLocation where, unsigned int flags, CUstream stream)
{
	return check_prefetch(ptr, n, where, flags, stream, false);
}
SING_PUBLIC(cuMemPrefetchAsync_v2);

CUresult sing_cuMemPrefetchAsync_v2_ptsz(CUdeviceptr ptr, size_t n, CUmemLocation where, unsigned int flags, CUstream stream)
{
	return check_prefetch(ptr, n, where, flags, stream, true);
}
SING_PUBLIC(cuMemPrefetchAsync_v2_ptsz);

/*
 * Check the arguments of an attachment, which has no effect: the program may touch the memory at any time, with any
 * stream.
 */
static CUresult check_attach(CUstream stream, CUdeviceptr ptr, size_t n, unsigned int flags, bool per_thread)
{
	struct sing_pinned what;
	const CUresult r = check_stream(stream, per_thread);

	if (r != CUDA_SUCCESS)
		return r;
	if ((flags != ATTACH_GLOBAL && flags != ATTACH_HOST && flags != ATTACH_SINGLE) || (flags == ATTACH_SINGLE && stream == NULL) ||
	    !is_managed(ptr, 1, &what))
		return CUDA_ERROR_INVALID_VALUE;
	if (what.variables) /* with several variables */
		return n <= what.n - (ptr - what.begin) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	return what.begin == ptr && (n == 0 || n == what.n) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sing_cuStreamAttachMemAsync(CUstream stream, CUdeviceptr ptr, size_t n, unsigned int flags)
{
	return check_attach(stream, ptr, n, flags, false);
}
SING_PUBLIC(cuStreamAttachMemAsync);

CUresult sing_cuStreamAttachMemAsync_ptsz(CUstream stream, CUdeviceptr ptr, size_t n, unsigned int flags)
{
	return check_attach(stream, ptr, n, flags, true);
}
SING_PUBLIC(cuStreamAttachMemAsync_ptsz);
