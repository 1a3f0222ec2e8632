// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// devices: 2
// expect: done
// says: cuMemHostGetDevicePointer_v2 is not supported

/* Pinned memory that devices reach by the program's addresses. */
#include "check.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void check_on(CUcontext ctx, unsigned char *p, size_t n)
{
	CUdeviceptr there;

	OK(cuCtxSetCurrent(ctx));
	OK(cuMemHostGetDevicePointer(&there, p, 0));
	HOLDS(there == (CUdeviceptr)(uintptr_t)p);
	memset(p, 1, n);
	OK(cuMemsetD8(there, 7, n));
	OK(cuCtxSynchronize());
	HOLDS(p[0] == 7 && p[n - 1] == 7);
	OK(cuMemcpyDtoD(there, there + n / 2, n / 2));
	OK(cuCtxSynchronize());
}

int main(void)
{
	const size_t n = 100000;
	unsigned char *p, *q, *mine = malloc(n);
	CUcontext first = open_context(), second;
	CUdeviceptr there;
	unsigned int mapped = 0;
	int status;
	pid_t child;

	OK(cuMemAllocHost((void **)&p, n));
	OK(cuMemHostAlloc((void **)&q, n, CU_MEMHOSTALLOC_DEVICEMAP));
	OK(cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, (CUdeviceptr)(uintptr_t)p));
	HOLDS(mapped == 1);
	check_on(first, p, n);
	check_on(first, q, n);
	OK(cuDevicePrimaryCtxRetain(&second, 1));
	check_on(second, p, n); /* the memory was there before the device was used */
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemHostGetDevicePointer(&there, p, 1));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemHostGetDevicePointer(&there, mine, 0));
	OK(cuMemHostRegister(mine, n, 0));
	WANT(CUDA_ERROR_NOT_SUPPORTED, cuMemHostGetDevicePointer(&there, mine, 0));
	OK(cuMemHostUnregister(mine));
	fflush(stdout);
	child = fork();
	if (child == 0) {
		WANT(CUDA_ERROR_NOT_INITIALIZED, cuMemHostGetDevicePointer(&there, p, 0));
		_exit(0);
	}
	HOLDS(waitpid(child, &status, 0) == child && status == 0);
	OK(cuMemFreeHost(p));
	/* A fault of the program's, not of the server's. */
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(mine, (CUdeviceptr)(uintptr_t)p, 8));
	check_on(first, q, n);
	OK(cuMemFreeHost(q));
	printf("done\n");
	return (0);
}
