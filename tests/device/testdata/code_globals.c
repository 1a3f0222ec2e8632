// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Variables of a module: their addresses, their values, and that kernels see bytes copied there.
// expect: 7 8 9 10
// expect: kernel saw 107 and 1000

#include "check.h"

static const char image[] = PTX(
	".visible .global .align 4 .u32 table[4] = { 7, 8, 9, 10 };\n"
	".visible .const .align 4 .u32 factor = 100;\n"
	".visible .global .align 8 .u64 big[100000];\n"
	".visible .entry look(.param .u64 p)\n"
	"{\n"
	".reg .u64 %p; .reg .u32 %a, %b;\n"
	"ld.param.u64 %p, [p];\n"
	"ld.global.u32 %a, [table]; ld.const.u32 %b, [factor]; add.u32 %a, %a, %b; st.global.u32 [%p], %a;\n"
	"ld.global.u32 %a, [table+4]; st.global.u32 [%p+4], %a;\n"
	"ret;\n"
	"}\n");

int main(void)
{
	CUmodule module, twin;
	CUfunction look;
	CUdeviceptr table, factor, big, other, p;
	size_t n;
	unsigned int v[4], thousand = 1000, seen[2];
	void *params[] = { &p };

	open_context();
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetGlobal(&table, &n, module, "table"));
	HOLDS(n == 16 && table != 0);
	OK(cuMemcpyDtoH(v, table, sizeof(v)));
	printf("%u %u %u %u\n", v[0], v[1], v[2], v[3]);
	OK(cuModuleGetGlobal(&factor, NULL, module, "factor"));
	OK(cuModuleGetGlobal(NULL, &n, module, "factor"));
	HOLDS(n == 4);
	OK(cuModuleGetGlobal(&big, &n, module, "big"));
	HOLDS(n == 800000);
	WANT(CUDA_ERROR_NOT_FOUND, cuModuleGetGlobal(&big, &n, module, "none"));
	WANT(CUDA_ERROR_INVALID_VALUE, cuModuleGetGlobal(&big, &n, module, "look")); /* a kernel */
	WANT(CUDA_ERROR_INVALID_VALUE, cuModuleGetGlobal(&big, &n, module, NULL));

	/* A second module has variables of its own. */
	OK(cuModuleLoadData(&twin, image));
	OK(cuModuleGetGlobal(&other, NULL, twin, "table"));
	HOLDS(other != table);
	OK(cuMemcpyHtoD(other, v, sizeof(v)));
	OK(cuModuleUnload(twin));

	OK(cuMemcpyHtoD(table + 4, &thousand, sizeof(thousand)));
	OK(cuModuleGetFunction(&look, module, "look"));
	OK(cuMemAlloc(&p, sizeof(seen)));
	OK(cuLaunchKernel(look, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	OK(cuMemcpyDtoH(seen, p, sizeof(seen)));
	printf("kernel saw %u and %u\n", seen[0], seen[1]);
	return (0);
}
