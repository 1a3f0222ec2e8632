// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// software: the pages of managed memory move without a call on real devices

// Managed memory that the program and kernels of two devices write by turns, without a copy, and in part at the same time.
// devices: 2
// limit: 60s

#include "check.h"

#include <string.h>

static const char image[] = PTX(
	".visible .entry mix(.param .u64 to, .param .u32 n, .param .u32 k)\n"
	"{\n"
	".reg .u32 %i, %n, %t, %b, %d, %v, %k; .reg .u64 %p, %o; .reg .pred %c;\n"
	"mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %d, %ntid.x; mad.lo.u32 %i, %b, %d, %t;\n"
	"ld.param.u32 %n, [n]; setp.ge.u32 %c, %i, %n; @%c ret;\n"
	"mul.wide.u32 %o, %i, 4; ld.param.u64 %p, [to]; add.u64 %p, %p, %o;\n"
	"ld.param.u32 %k, [k]; ld.global.u32 %v, [%p]; mad.lo.u32 %v, %v, 1664525, %k; st.global.u32 [%p], %v;\n"
	"ret;\n"
	"}\n");

enum { N = 30000, STEPS = 600, SIZE = N * 4, GLOBAL = 1, HOST = 2, SINGLE = 4, READ_MOSTLY = 1, PREFERRED = 3, CPU = -1 };

static unsigned int hash_words(const unsigned int *p, int n)
{
	unsigned int h = 2166136261u;

	for (int i = 0; i < n; ++i)
		h = (h ^ p[i]) * 16777619u;
	return (h);
}

static void launch_kernel(CUfunction f, unsigned int *to, unsigned int n, unsigned int k, CUstream s)
{
	void *params[] = { &to, &n, &k };

	OK(cuLaunchKernel(f, (n + 255) / 256, 1, 1, 256, 1, 1, 0, s, params, NULL));
}

/* Attributes of managed memory, and of memory that is not managed. */
static void check_attributes(CUdeviceptr p, CUstream s)
{
	unsigned int is = 0, type = 0;
	void *host = NULL;
	CUdeviceptr base, other;
	size_t n;
	int has = 0;

	OK(cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 0));
	HOLDS(has == 1);
	OK(cuPointerGetAttribute((void *)&is, CU_POINTER_ATTRIBUTE_IS_MANAGED, p + 8));
	OK(cuPointerGetAttribute((void *)&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 8));
	OK(cuPointerGetAttribute((void *)&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, p + 8));
	HOLDS(is == 1 && type == CU_MEMORYTYPE_DEVICE && host == (void *)(p + 8));
	OK(cuMemGetAddressRange(&base, &n, p + 8));
	HOLDS(base == p && n >= SIZE);
	OK(cuMemAdvise(p, SIZE, READ_MOSTLY, 0));
	OK(cuMemAdvise(p, 4096, PREFERRED, CPU));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemAdvise(p, SIZE, 99, 0));
	WANT(CUDA_ERROR_INVALID_DEVICE, cuMemAdvise(p, SIZE, PREFERRED, 7));
	OK(cuMemPrefetchAsync(p, SIZE, 1, s));
	OK(cuMemPrefetchAsync(p, SIZE, CPU, NULL));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync(p, 2 * SIZE, 0, s));
	OK(cuStreamAttachMemAsync(s, p, 0, SINGLE));
	OK(cuStreamAttachMemAsync(NULL, p, SIZE, HOST));
	WANT(CUDA_ERROR_INVALID_VALUE, cuStreamAttachMemAsync(NULL, p, 0, SINGLE));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&other, 0, GLOBAL));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&other, 64, 7));
	OK(cuMemAlloc(&other, 64));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync(other, 64, 0, s));
	OK(cuMemFree(other));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemFree(p + 8));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost((void *)p));
}

int main(void)
{
	CUcontext ctx[2];
	CUmodule module[2];
	CUfunction mix[2];
	CUstream s[2];
	CUdeviceptr managed, plain, comes = 0;
	unsigned int *data, small[16];

	OK(cuInit(0));
	for (int d = 0; d < 2; ++d) {
		OK(cuDevicePrimaryCtxRetain(&ctx[d], d));
		OK(cuCtxSetCurrent(ctx[d]));
		OK(cuModuleLoadData(&module[d], image));
		OK(cuModuleGetFunction(&mix[d], module[d], "mix"));
		OK(cuStreamCreate(&s[d], CU_STREAM_NON_BLOCKING));
		if (d == 0)
			OK(cuMemAllocManaged(&managed, SIZE, GLOBAL));
	}
	check_attributes(managed, s[1]);
	OK(cuMemAlloc(&plain, SIZE));
	data = (unsigned int *)managed;
	for (unsigned int i = 0; i < N; ++i)
		data[i] = i * 2654435761u;
	for (unsigned int step = 0; step < STEPS; ++step) {
		const int d = step % 2;

		OK(cuCtxSetCurrent(ctx[d]));
		/* A kernel in the first half, the program in the second. */
		launch_kernel(mix[d], data, N / 2, step, s[d]);
		for (unsigned int i = N / 2; i < N; i += 7)
			data[i] += step;
		OK(cuStreamSynchronize(s[d]));
		launch_kernel(mix[d], data, N, step, s[d]);
		OK(cuStreamSynchronize(s[d]));
		/* Copies of all kinds go by its addresses. */
		OK(cuMemcpyDtoD(plain, managed, SIZE));
		OK(cuMemcpyDtoH(small, managed + 64, sizeof(small)));
		small[0] ^= step;
		OK(cuMemcpyHtoD(managed + 128, small, sizeof(small)));
		OK(cuMemsetD32(managed + 1024, step, 16));
		OK(cuMemcpy(managed + 4096, plain, 1024));
		if (step % 4 == 0) {
			if (comes)
				OK(cuMemFree(comes));
			OK(cuMemAllocManaged(&comes, 8192 + 4096 * (step % 100), HOST));
			HOLDS(((unsigned int *)comes)[2047] == 0);
			memset((void *)comes, (int)step, 8192);
		}
		launch_kernel(mix[d], (unsigned int *)comes, 2048, step, NULL);
		OK(cuCtxSynchronize());
		printf("step %u %08x comes %08x\n", step, hash_words(data, N), hash_words((unsigned int *)comes, 2048));
		fflush(stdout);
	}
	OK(cuMemFree(comes));
	OK(cuMemFree(managed));
	return (0);
}
