// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// expect: 1000 sums are right

/* Launches that are set up piece by piece, as before CUDA 4 and still by gpu-burn. */
#include "check.h"

static const char image[] = PTX(
	".visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)\n"
	"{\n"
	".reg .u32 %i, %n, %t, %b, %d; .reg .u64 %p, %o; .reg .f32 %x, %y; .reg .pred %q;\n"
	"mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %d, %ntid.x; mad.lo.u32 %i, %b, %d, %t;\n"
	"ld.param.u32 %n, [n]; setp.ge.u32 %q, %i, %n; @%q ret;\n"
	"mul.wide.u32 %o, %i, 4;\n"
	"ld.param.u64 %p, [a]; add.u64 %p, %p, %o; ld.global.f32 %x, [%p];\n"
	"ld.param.u64 %p, [b]; add.u64 %p, %p, %o; ld.global.f32 %y, [%p];\n"
	"add.rn.f32 %x, %x, %y;\n"
	"ld.param.u64 %p, [c]; add.u64 %p, %p, %o; st.global.f32 [%p], %x;\n"
	"ret;\n"
	"}\n");

enum { N = 1000, BLOCK = 16, A = 0, B = 8, C = 16, COUNT = 24, ALL = 28 };

int main(void)
{
	CUcontext ctx = open_context();
	CUmodule module;
	CUfunction add;
	CUstream stream;
	CUdeviceptr a, b, c;
	float x[N], y[N], z[N];
	unsigned int right = 0;

	for (int i = 0; i < N; ++i) {
		x[i] = (float)i;
		y[i] = (float)i / 2;
	}
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&add, module, "add"));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc(&a, sizeof(x)));
	OK(cuMemAlloc(&b, sizeof(y)));
	OK(cuMemAlloc(&c, sizeof(z)));
	OK(cuMemcpyHtoD(a, x, sizeof(x)));
	OK(cuMemcpyHtoD(b, y, sizeof(y)));
	OK(cuMemsetD32(c, 0, N));

	WANT(CUDA_ERROR_INVALID_VALUE, cuLaunch(add)); /* nothing is set */
	WANT(CUDA_ERROR_INVALID_HANDLE, cuParamSetSize((CUfunction)module, ALL));
	WANT(CUDA_ERROR_INVALID_VALUE, cuParamSetSize(add, 4097));
	WANT(CUDA_ERROR_INVALID_VALUE, cuParamSetv(add, 4090, &a, sizeof(a)));
	WANT(CUDA_ERROR_INVALID_VALUE, cuParamSetv(add, -1, &a, sizeof(a)));
	WANT(CUDA_ERROR_INVALID_VALUE, cuParamSetv(add, A, NULL, sizeof(a)));
	WANT(CUDA_ERROR_INVALID_VALUE, cuFuncSetBlockShape(add, BLOCK, 0, 1));
	OK(cuParamSetSize(add, ALL));
	OK(cuParamSetv(add, A, &a, sizeof(a)));
	OK(cuParamSetv(add, B, &b, sizeof(b)));
	OK(cuParamSetv(add, C, &c, sizeof(c)));
	OK(cuParamSeti(add, COUNT, N));
	WANT(CUDA_ERROR_INVALID_VALUE, cuLaunchGrid(add, 63, 1)); /* blocks have no shape yet */
	OK(cuFuncSetBlockShape(add, BLOCK, 1, 1));
	OK(cuFuncSetSharedSize(add, 256));
	WANT(CUDA_ERROR_INVALID_VALUE, cuLaunchGrid(add, 0, 1));

	/* The first block alone, then all of them in a stream; the pieces stay. */
	OK(cuLaunch(add));
	OK(cuMemcpyDtoH(z, c, sizeof(z)));
	HOLDS(z[BLOCK - 1] == x[BLOCK - 1] + y[BLOCK - 1] && z[BLOCK] == 0);
	OK(cuLaunchGridAsync(add, (N + BLOCK - 1) / BLOCK, 1, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuMemcpyDtoH(z, c, sizeof(z)));
	for (int i = 0; i < N; ++i)
		right += z[i] == x[i] + y[i];
	printf("%u sums are right\n", right);
	HOLDS(ctx != NULL);
	return (0);
}
