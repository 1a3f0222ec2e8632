// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// expect: 1000 sums are right

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

enum { N = 1000 };

int main(void)
{
	CUcontext ctx = open_context();
	CUmodule module;
	CUfunction add;
	CUdeviceptr a, b, c;
	float x[N], y[N], z[N];
	unsigned int n = N, right = 0;
	void *params[] = { &a, &b, &c, &n };

	for (int i = 0; i < N; ++i) {
		x[i] = (float)i;
		y[i] = (float)i / 2;
	}
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&add, module, "add"));
	WANT(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&add, module, "subtract"));
	OK(cuMemAlloc(&a, sizeof(x)));
	OK(cuMemAlloc(&b, sizeof(y)));
	OK(cuMemAlloc(&c, sizeof(z)));
	OK(cuMemcpyHtoD(a, x, sizeof(x)));
	OK(cuMemcpyHtoD(b, y, sizeof(y)));
	OK(cuModuleGetFunction(&add, module, "add"));
	OK(cuLaunchKernel(add, (N + 127) / 128, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
	OK(cuMemcpyDtoH(z, c, sizeof(z)));
	for (int i = 0; i < N; ++i)
		right += z[i] == x[i] + y[i];
	printf("%u sums are right\n", right);
	OK(cuMemFree(a));
	OK(cuMemFree(b));
	OK(cuMemFree(c));
	OK(cuModuleUnload(module));
	OK(cuDevicePrimaryCtxRelease(0));
	HOLDS(ctx != NULL);
	return (0);
}
