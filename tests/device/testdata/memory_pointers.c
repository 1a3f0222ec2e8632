// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// expect: done

/* Facts about addresses; pinned and registered memory; attributes of pools. */
#include "check.h"

#include <string.h>
#include <sys/mman.h>

struct seen {
	CUcontext context;
	unsigned int type, managed;
	int device;
	CUdeviceptr start;
	size_t size;
	unsigned long long id;
};

static struct seen look_at(CUdeviceptr p)
{
	CUpointer_attribute wanted[] = {
		CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_BUFFER_ID,
	};
	struct seen s;
	void *data[] = { &s.context, &s.type, &s.managed, &s.device, &s.start, &s.size, &s.id };

	memset(&s, 0xff, sizeof(s));
	OK(cuPointerGetAttributes(7, wanted, data, p));
	return (s);
}

static void device_memory(CUcontext ctx)
{
	CUdeviceptr a, b, got;
	unsigned long long id;
	unsigned int type;
	int ordinal;
	struct seen s;

	OK(cuMemAlloc(&a, 1000));
	s = look_at(a + 999);
	HOLDS(s.context == ctx && s.type == CU_MEMORYTYPE_DEVICE && s.managed == 0 && s.device == 0 && s.start == a && s.size >= 1000);
	id = s.id;
	HOLDS(look_at(a).id == id);
	OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a));
	HOLDS(type == CU_MEMORYTYPE_DEVICE);
	OK(cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, a + 5));
	HOLDS(got == a + 5);
	OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, a));
	HOLDS(ordinal == 0);
	WANT(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_HOST_POINTER, a));
	WANT(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&got, 12345, a));
	OK(cuMemFree(a));
	WANT(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a));
	OK(cuMemAlloc(&b, 1000));
	HOLDS(b == a && look_at(b).id != id);
	OK(cuMemFree(b));
}

static void check_unknown(void)
{
	static char here[8];
	unsigned int type = 77;
	struct seen s = look_at((CUdeviceptr)(uintptr_t)here);

	HOLDS(s.context == NULL && s.type == 0 && s.managed == 0 && s.device == -2 && s.start == 0 && s.size == 0);
	WANT(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)here));
	HOLDS(type == 77);
}

static void host_memory(CUcontext ctx)
{
	char *p, *q, *mine = malloc(1 << 20);
	CUdeviceptr got;
	unsigned int flags;
	struct seen s;

	WANT(CUDA_ERROR_INVALID_VALUE, cuMemAllocHost((void **)&p, 0));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemHostAlloc((void **)&p, 100, 64));
	OK(cuMemHostAlloc((void **)&p, 100000, CU_MEMHOSTALLOC_PORTABLE));
	OK(cuMemAllocHost((void **)&q, 100));
	memset(p, 1, 100000);
	memset(q, 1, 100);
	s = look_at((CUdeviceptr)(uintptr_t)p + 99999);
	HOLDS(s.context == ctx && s.type == CU_MEMORYTYPE_HOST && s.device == 0 && s.start == (CUdeviceptr)(uintptr_t)p && s.size == 100000);
	HOLDS(s.id != look_at((CUdeviceptr)(uintptr_t)q).id);
	OK(cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_HOST_POINTER, (CUdeviceptr)(uintptr_t)p + 7));
	HOLDS(got == (CUdeviceptr)(uintptr_t)p + 7);
	OK(cuMemHostGetFlags(&flags, p + 5));
	HOLDS(flags == CU_MEMHOSTALLOC_PORTABLE);
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemHostGetFlags(&flags, mine));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(p + 8));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(mine));

	OK(cuMemHostRegister(mine, 1 << 20, CU_MEMHOSTREGISTER_PORTABLE));
	WANT(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(mine, 1 << 20, 0));
	WANT(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(mine + 4096, 4096, 0));
	WANT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(mine + 4096));
	WANT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(p));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(mine));
	HOLDS(look_at((CUdeviceptr)(uintptr_t)mine + 4096).start == (CUdeviceptr)(uintptr_t)mine);
	OK(cuMemHostUnregister(mine));
	WANT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(mine));
	p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(p + 4096, 4096);
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister(p, 8192, 0));
	OK(cuMemFreeHost(q));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(q));
}

static void check_pools(void)
{
	CUmemoryPool pool;
	cuuint64_t threshold = 12345, got = 0;
	int reuse = 7;

	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
	OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &got));
	HOLDS(got == 12345);
	OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, &reuse));
	HOLDS(reuse == 1);
	reuse = 0;
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, &reuse));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemPoolSetAttribute(pool, 99, &threshold));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, NULL));
}

static void check_streams(CUcontext ctx)
{
	CUcontext other, got;
	CUstream a, b;

	OK(cuStreamCreate(&a, 0));
	OK(cuCtxCreate(&other, 0, 0));
	OK(cuStreamCreate(&b, 0));
	OK(cuStreamGetCtx(a, &got));
	HOLDS(got == ctx);
	OK(cuStreamGetCtx(b, &got));
	HOLDS(got == other);
	OK(cuStreamGetCtx(NULL, &got));
	HOLDS(got == other);
	OK(cuStreamDestroy(b));
	WANT(CUDA_ERROR_INVALID_HANDLE, cuStreamGetCtx(b, &got));
	OK(cuCtxDestroy(other));
	OK(cuStreamGetCtx(NULL, &got));
	HOLDS(got == ctx);
}

int main(void)
{
	CUcontext ctx = open_context();

	device_memory(ctx);
	check_unknown();
	host_memory(ctx);
	check_pools();
	check_streams(ctx);
	printf("done\n");
	return (0);
}
