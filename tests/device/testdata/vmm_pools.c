// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// devices: 2
// expect: done

/* Addresses and memory apart, and memory in the order of a stream. */
#include "check.h"

#include <stdint.h>
#include <string.h>

static uint32_t read_word(CUdeviceptr p)
{
	uint32_t v;

	OK(cuMemcpyDtoH(&v, p, sizeof(v)));
	return v;
}

static void virtual_memory(void)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED };
	CUmemAccessDesc access = { .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle one, two, again;
	size_t granule, before, after, total;
	unsigned long long flags;
	CUdeviceptr base;

	prop.location.type = access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	OK(cuMemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	OK(cuMemGetInfo(&before, &total));
	OK(cuMemAddressReserve(&base, 4 * granule, 0, 0, 0));
	OK(cuMemCreate(&one, granule, &prop, 0));
	OK(cuMemCreate(&two, granule, &prop, 0));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&again, granule + 1, &prop, 0));
	OK(cuMemGetInfo(&after, &total));
	HOLDS(before - after == 2 * granule);
	OK(cuMemMap(base, granule, 0, one, 0));
	OK(cuMemMap(base + granule, granule, 0, two, 0));
	OK(cuMemSetAccess(base, 2 * granule, &access, 1));
	OK(cuMemGetAccess(&flags, &prop.location, base));
	HOLDS(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);

	/* Over the border, and the same memory at another address. */
	OK(cuMemsetD32(base + granule - 8, 0x12345678, 4));
	OK(cuCtxSynchronize());
	OK(cuMemUnmap(base, granule));
	OK(cuMemMap(base + 3 * granule, granule, 0, one, 0));
	OK(cuMemSetAccess(base + 3 * granule, granule, &access, 1));
	HOLDS(read_word(base + granule) == 0x12345678);
	HOLDS(read_word(base + 4 * granule - 4) == 0x12345678);
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoD(base, base + granule, 4) == CUDA_SUCCESS ? cuCtxSynchronize() : CUDA_ERROR_INVALID_VALUE);

	OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(base + granule)));
	OK(cuMemRelease(again));
	OK(cuMemRelease(one));
	OK(cuMemRelease(two));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(base, 4 * granule));
	OK(cuMemUnmap(base + granule, granule));
	OK(cuMemUnmap(base + 3 * granule, granule));
	OK(cuMemAddressFree(base, 4 * granule));
	OK(cuMemGetInfo(&after, &total));
	HOLDS(before == after);
}

/* What programs of CUDA 13 find by its name, and by the version. */
static void *find(const char *name)
{
	void *function = NULL;

	OK(cuGetProcAddress(name, &function, 13000, 0, NULL));
	return (function);
}

/* Pools by their location, and the calls that have kept their names beside newer calls with a suffix in theirs. */
static void by_location(CUstream s)
{
	CUresult (*const get_default)(CUmemoryPool *, const CUmemLocation *, int) = find("cuMemGetDefaultMemPool");
	CUresult (*const get)(CUmemoryPool *, const CUmemLocation *, int) = find("cuMemGetMemPool");
	CUresult (*const set)(const CUmemLocation *, int, CUmemoryPool) = find("cuMemSetMemPool");
	CUresult (*const stream_context)(CUstream, CUcontext *) = find("cuStreamGetCtx");
	CUresult (*const stream_contexts)(CUstream, CUcontext *, void *) = find("cuStreamGetCtx_v2");
	CUresult (*const synchronize)(void) = find("cuCtxSynchronize");
	CUresult (*const synchronize_context)(CUcontext) = find("cuCtxSynchronize_v2");
	const CUmemLocation here = { CU_MEM_LOCATION_TYPE_DEVICE, 0 }, host = { CU_MEM_LOCATION_TYPE_HOST, 0 }, nowhere = { 0, 0 };
	const CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = here };
	CUmemoryPool theirs, mine, current;
	CUcontext a, b, now;
	void *green = &now;

	OK(cuDeviceGetDefaultMemPool(&theirs, 0));
	OK(get_default(&current, &here, CU_MEM_ALLOCATION_TYPE_PINNED));
	HOLDS(current == theirs);
	OK(cuMemPoolCreate(&mine, &props));
	OK(set(&here, CU_MEM_ALLOCATION_TYPE_PINNED, mine));
	OK(get(&current, &here, CU_MEM_ALLOCATION_TYPE_PINNED));
	HOLDS(current == mine);
	OK(cuMemPoolDestroy(mine));
	WANT(CUDA_ERROR_NOT_SUPPORTED, get(&current, &host, CU_MEM_ALLOCATION_TYPE_PINNED));
	WANT(CUDA_ERROR_NOT_SUPPORTED, get_default(&current, &here, CU_MEM_ALLOCATION_TYPE_MANAGED));
	WANT(CUDA_ERROR_INVALID_VALUE, set(&nowhere, CU_MEM_ALLOCATION_TYPE_PINNED, theirs));
	WANT(CUDA_ERROR_INVALID_VALUE, get(&current, &here, 0));
	WANT(CUDA_ERROR_INVALID_VALUE, get(&current, NULL, CU_MEM_ALLOCATION_TYPE_PINNED));

	OK(cuCtxGetCurrent(&now));
	OK(stream_context(s, &a));
	OK(stream_contexts(s, &b, &green));
	HOLDS(a == now && b == now && green == NULL);
	OK(synchronize());
	OK(synchronize_context(now));
}

static void check_pools(void)
{
	CUmemPoolProps props;
	CUmemoryPool mine, theirs, current;
	CUstream s, t;
	CUdeviceptr p, q;
	cuuint64_t used;
	CUevent e;

	memset(&props, 0, sizeof(props));
	props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
	OK(cuMemPoolCreate(&mine, &props));
	OK(cuDeviceGetDefaultMemPool(&theirs, 0));
	OK(cuDeviceGetMemPool(&current, 0));
	HOLDS(current == theirs);
	OK(cuDeviceSetMemPool(0, mine));
	OK(cuMemAllocAsync(&p, 1 << 20, s));
	OK(cuMemsetD32Async(p, 5, 1 << 18, s));
	OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	OK(cuEventRecord(e, s));
	OK(cuStreamWaitEvent(t, e, 0));
	OK(cuMemAllocFromPoolAsync(&q, 1 << 20, theirs, t));
	OK(cuMemcpyDtoDAsync(q, p, 1 << 20, t));
	OK(cuStreamSynchronize(t));
	HOLDS(read_word(q + (1 << 20) - 4) == 5);
	OK(cuMemPoolGetAttribute(mine, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
	HOLDS(used == 1 << 20);
	OK(cuMemFreeAsync(p, s));
	OK(cuMemFreeAsync(q, t));
	OK(cuCtxSynchronize());
	OK(cuMemPoolGetAttribute(mine, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
	HOLDS(used == 0);
	OK(cuMemPoolTrimTo(mine, 0));
	OK(cuMemPoolDestroy(mine));
	OK(cuDeviceGetMemPool(&current, 0));
	HOLDS(current == theirs);
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(theirs));
	by_location(s);
}

/* Calls about addresses and memory need no context: the current one may have been destroyed. */
static void without_context(void)
{
	const CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	const CUmemAccessDesc all = { .location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle m, more;
	CUdeviceptr before, at;
	size_t n;

	OK(cuMemAddressReserve(&before, 2 << 20, 0, 0, 0));
	OK(cuDevicePrimaryCtxRelease(0));
	WANT(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxSynchronize());
	OK(cuMemGetAllocationGranularity(&n, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	OK(cuMemAddressReserve(&at, n, 0, 0, 0));
	OK(cuMemCreate(&m, n, &prop, 0));
	OK(cuMemMap(at, n, 0, m, 0));
	OK(cuMemSetAccess(at, n, &all, 1));
	OK(cuMemRetainAllocationHandle(&more, (void *)at));
	OK(cuMemRelease(more));
	OK(cuMemUnmap(at, n));
	OK(cuMemRelease(m));
	OK(cuMemAddressFree(at, n));
	OK(cuMemAddressFree(before, 2 << 20));
}

int main(void)
{
	open_context();
	virtual_memory();
	check_pools();
	without_context();
	puts("done");
	return (0);
}
