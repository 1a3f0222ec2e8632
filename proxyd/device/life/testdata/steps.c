// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Takes a step for each line that it reads: adds to words on a device, and prints their sum.

#include "check.h"

static const char image[] = PTX(
	".visible .entry add(.param .u64 p, .param .u32 k)\n"
	"{\n"
	".reg .u32 %i, %v, %k; .reg .u64 %p, %o;\n"
	"mov.u32 %i, %tid.x; mul.wide.u32 %o, %i, 4; ld.param.u64 %p, [p]; add.u64 %p, %p, %o;\n"
	"ld.param.u32 %k, [k]; ld.global.u32 %v, [%p]; mad.lo.u32 %v, %i, %k, %v; st.global.u32 [%p], %v;\n"
	"ret;\n"
	"}\n");

enum { N = 256 };

int main(void)
{
	CUcontext ctx;
	CUmodule module;
	CUfunction add;
	CUdeviceptr p;
	unsigned int words[N], sum;
	char line[8];

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&add, module, "add"));
	OK(cuMemAlloc(&p, sizeof(words)));
	OK(cuMemsetD32(p, 1, N));
	printf("ready\n");
	fflush(stdout);
	for (unsigned int k = 1; fgets(line, sizeof(line), stdin) != NULL; ++k) {
		void *params[] = { &p, &k };

		OK(cuLaunchKernel(add, 1, 1, 1, N, 1, 1, 0, NULL, params, NULL));
		OK(cuMemcpyDtoH(words, p, sizeof(words)));
		sum = 0;
		for (int i = 0; i < N; ++i)
			sum += words[i];
		printf("%u\n", sum);
		fflush(stdout);
	}
	return (0);
}
