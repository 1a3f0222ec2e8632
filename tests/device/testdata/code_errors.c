// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// A wrong launch returns its error at once, and has no effect on the rest of the program.
// expect: all is well

#include "check.h"

static const char image[] = PTX(
	".visible .entry f(.param .u64 p, .param .u32 v)\n"
	".maxntid 64, 1, 1\n"
	"{ .reg .u64 %p; .reg .u32 %v; ld.param.u64 %p, [p]; ld.param.u32 %v, [v]; st.global.u32 [%p], %v; ret; }\n"
	".visible .entry exact()\n"
	".reqntid 8, 4, 1\n"
	"{ ret; }\n");

static CUresult launch_shape(CUfunction f, unsigned int x, unsigned int y, unsigned int z, unsigned int bx, unsigned int by, unsigned int bz,
			     void **params)
{
	return (cuLaunchKernel(f, x, y, z, bx, by, bz, 0, NULL, params, NULL));
}

int main(void)
{
	CUcontext first = open_context(), second;
	CUmodule module;
	CUfunction f, exact;
	CUdeviceptr p;
	CUstream stream;
	unsigned int v = 3, got;
	void *params[] = { &p, &v };
	struct {
		CUdeviceptr p;
		unsigned int v, more;
	} block = { 0, 4, 5 };
	size_t size = 12, less = 11;
	void *extra[] = { CU_LAUNCH_PARAM_BUFFER_POINTER, &block, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END };

	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&f, module, "f"));
	OK(cuModuleGetFunction(&exact, module, "exact"));
	OK(cuMemAlloc(&p, 4));
	WANT(CUDA_ERROR_INVALID_VALUE, launch_shape(f, 0, 1, 1, 1, 1, 1, params));
	WANT(CUDA_ERROR_INVALID_VALUE, launch_shape(f, 1, 65536, 1, 1, 1, 1, params));
	WANT(CUDA_ERROR_INVALID_VALUE, launch_shape(f, 1, 1, 1, 1, 0, 1, params));
	WANT(CUDA_ERROR_INVALID_VALUE, launch_shape(f, 1, 1, 1, 2048, 1, 1, params));
	WANT(CUDA_ERROR_INVALID_VALUE, launch_shape(f, 1, 1, 1, 1, 1, 65, params));
	WANT(CUDA_ERROR_INVALID_VALUE, launch_shape(f, 1, 1, 1, 65, 1, 1, params));
	WANT(CUDA_ERROR_INVALID_VALUE, launch_shape(f, 1, 1, 1, 1, 1, 1, NULL));
	WANT(CUDA_ERROR_INVALID_VALUE, launch_shape(exact, 1, 1, 1, 32, 1, 1, NULL));
	OK(launch_shape(exact, 1, 1, 1, 8, 4, 1, NULL));
	WANT(CUDA_ERROR_INVALID_HANDLE, launch_shape((CUfunction)module, 1, 1, 1, 1, 1, 1, params));
	WANT(CUDA_ERROR_INVALID_HANDLE, launch_shape(NULL, 1, 1, 1, 1, 1, 1, params));
	WANT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, extra));
	WANT(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, cuLaunchCooperativeKernel(f, 1000000, 1, 1, 64, 1, 1, 0, NULL, params));
	{
		CUlaunchAttribute cluster = { .id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION };
		CUlaunchConfig config = { 2, 1, 1, 1, 1, 1, 0, NULL, &cluster, 1 };

		cluster.value.clusterDim.x = 2;
		cluster.value.clusterDim.y = cluster.value.clusterDim.z = 1;
		WANT(CUDA_ERROR_INVALID_CLUSTER_SIZE, cuLaunchKernelEx(&config, f, params, NULL));
	}

	OK(launch_shape(f, 1, 1, 1, 1, 1, 1, params));
	OK(cuMemcpyDtoH(&got, p, 4));
	HOLDS(got == 3);
	block.p = p;
	OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
	OK(cuMemcpyDtoH(&got, p, 4));
	HOLDS(got == 4);
	extra[3] = &less;
	WANT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));

	/* A function belongs to a single context. */
	OK(cuCtxCreate(&second, 0, 0));
	WANT(CUDA_ERROR_INVALID_HANDLE, launch_shape(f, 1, 1, 1, 1, 1, 1, params));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuCtxSetCurrent(first));
	WANT(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
	OK(cuCtxDestroy(second));
	OK(cuCtxPopCurrent(NULL)); /* first was on the thread's stack of contexts twice */
	WANT(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
	OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
	OK(cuStreamDestroy(stream));
	WANT(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
	WANT(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, (CUstream)0x1000, params, NULL));
	OK(cuCtxSetCurrent(NULL));
	WANT(CUDA_ERROR_INVALID_CONTEXT, launch_shape(f, 1, 1, 1, 1, 1, 1, params));
	WANT(CUDA_ERROR_INVALID_CONTEXT, cuModuleLoadData(&module, image));
	OK(cuCtxSetCurrent(first));

	/* Code that is unloaded is gone. */
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
	OK(cuModuleUnload(module));
	WANT(CUDA_ERROR_INVALID_HANDLE, launch_shape(f, 1, 1, 1, 1, 1, 1, params));
	OK(cuCtxSynchronize());
	printf("all is well\n");
	return (0);
}
