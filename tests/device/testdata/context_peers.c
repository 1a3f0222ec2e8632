// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// devices: 2
// expect: done

/* Two devices in a single program, and several contexts of a device. */
#include "check.h"

#include <stdint.h>

static uint32_t read_word(CUdeviceptr p)
{
	uint32_t v;

	OK(cuMemcpyDtoH(&v, p, sizeof(v)));
	return v;
}

int main(void)
{
	CUcontext zero = open_context(), one, more;
	CUdeviceptr a, b, c;
	unsigned int flags;
	int yes, active;
	void *pinned, *more_pinned;
	size_t n;

	OK(cuDeviceCanAccessPeer(&yes, 0, 1));
	HOLDS(yes == 1);
	OK(cuDeviceCanAccessPeer(&yes, 1, 1));
	HOLDS(yes == 0);
	OK(cuMemAlloc(&a, 4096));
	OK(cuMemsetD32(a, 42, 1024));
	OK(cuDevicePrimaryCtxRetain(&one, 1));
	OK(cuCtxSetCurrent(one));
	OK(cuMemAlloc(&b, 4096));
	HOLDS(a != b);
	OK(cuMemcpyPeer(b, one, a, zero, 4096));
	HOLDS(read_word(b + 4092) == 42);
	WANT(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(zero));
	/* Memory of the host is in both contexts already. */
	OK(cuMemHostAlloc(&pinned, 4096, CU_MEMHOSTALLOC_PORTABLE));
	OK(cuMemcpyDtoH(pinned, b, 4096));
	OK(cuCtxEnablePeerAccess(zero, 0));
	OK(cuMemHostAlloc(&more_pinned, 4096, CU_MEMHOSTALLOC_PORTABLE));
	OK(cuMemcpyDtoH(more_pinned, a, 4096));
	HOLDS(*(uint32_t *)pinned == 42 && *(uint32_t *)more_pinned == 42);
	OK(cuMemFreeHost(pinned));
	/* A stream frees memory of a peer. */
	OK(cuCtxSetCurrent(zero));
	OK(cuMemAlloc(&c, 4096));
	OK(cuCtxSetCurrent(one));
	OK(cuMemFreeAsync(c, NULL));
	OK(cuCtxSynchronize());
	WANT(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(zero, 0));
	WANT(CUDA_ERROR_INVALID_CONTEXT, cuCtxEnablePeerAccess(one, 0));
	OK(cuMemsetD32(b, 7, 1024));
	OK(cuMemcpyDtoD(a, b, 4096));
	OK(cuCtxSynchronize());
	HOLDS(read_word(a) == 7);
	OK(cuCtxDisablePeerAccess(zero));
	OK(cuMemFreeHost(more_pinned));

	/* A context that is not the primary context: its memory goes with the context, and the primary context's memory stays. */
	OK(cuCtxCreate(&more, CU_CTX_SCHED_YIELD, 1));
	OK(cuCtxGetFlags(&flags));
	HOLDS((flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_YIELD);
	OK(cuMemAlloc(&c, 1 << 20));
	OK(cuMemGetAddressRange(NULL, &n, c + 5));
	HOLDS(n == 1 << 20);
	OK(cuCtxDestroy(more));
	OK(cuCtxSetCurrent(one));
	WANT(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(NULL, &n, c));
	HOLDS(read_word(b) == 7);

	/* The primary context is counted. */
	OK(cuDevicePrimaryCtxRetain(&more, 1));
	HOLDS(more == one);
	OK(cuDevicePrimaryCtxRelease(1));
	OK(cuDevicePrimaryCtxGetState(1, &flags, &active));
	HOLDS(active == 1);
	OK(cuDevicePrimaryCtxRelease(1));
	OK(cuDevicePrimaryCtxGetState(1, &flags, &active));
	HOLDS(active == 0);
	WANT(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(1));
	WANT(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxSynchronize());
	OK(cuCtxSetCurrent(zero));
	HOLDS(read_word(a) == 7);
	puts("done");
	return (0);
}
