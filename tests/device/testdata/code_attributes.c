// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Attributes of functions, and shared memory beyond what a launch may have unasked.
// expect: 65536 bytes of dynamic shared memory: 16383

#include "check.h"

static const char image[] = PTX(
	".extern .shared .align 16 .b8 dynamic[];\n"
	".visible .entry last(.param .u64 p, .param .u32 n)\n"
	".maxntid 128, 1, 1\n"
	"{\n"
	".shared .align 4 .b8 fixed[1024]; .local .align 4 .b8 own[64];\n"
	".reg .u64 %p; .reg .u32 %n, %i, %a, %v; .reg .pred %q;\n"
	"mov.u32 %a, fixed; st.shared.u32 [%a], 5; mov.u64 %p, own; st.local.u32 [%p], 5;\n"
	"ld.param.u32 %n, [n]; mov.u32 %i, 0; mov.u32 %a, dynamic;\n"
	"fill: st.shared.u32 [%a], %i; add.u32 %a, %a, 4; add.u32 %i, %i, 1; setp.lt.u32 %q, %i, %n; @%q bra fill;\n"
	"ld.shared.u32 %v, [%a+-4]; ld.param.u64 %p, [p]; st.global.u32 [%p], %v;\n"
	"ret;\n"
	"}\n");

static int get_attribute(CUfunction f, CUfunction_attribute a)
{
	int v;

	OK(cuFuncGetAttribute(&v, a, f));
	return (v);
}

int main(void)
{
	CUmodule module, whose;
	CUfunction last;
	CUdeviceptr p;
	size_t offset, size;
	unsigned int n = 65536 / 4, v;
	void *params[] = { &p, &n };
	const char *name;
	int most;

	open_context();
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&last, module, "last"));
	HOLDS(get_attribute(last, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) == 128);
	HOLDS(get_attribute(last, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES) == 1024);
	HOLDS(get_attribute(last, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES) >= 64);
	HOLDS(get_attribute(last, CU_FUNC_ATTRIBUTE_NUM_REGS) > 0);
	HOLDS(get_attribute(last, CU_FUNC_ATTRIBUTE_PTX_VERSION) == 70);
	HOLDS(get_attribute(last, CU_FUNC_ATTRIBUTE_BINARY_VERSION) == 100);
	HOLDS(get_attribute(last, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) == 49152 - 1024);
	WANT(CUDA_ERROR_INVALID_VALUE, cuFuncGetAttribute(&most, (CUfunction_attribute)99, last));
	WANT(CUDA_ERROR_INVALID_VALUE, cuFuncGetAttribute(NULL, CU_FUNC_ATTRIBUTE_NUM_REGS, last));
	WANT(CUDA_ERROR_INVALID_HANDLE, cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_NUM_REGS, (CUfunction)module));

	OK(cuMemAlloc(&p, 4));
	WANT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(last, 1, 1, 1, 1, 1, 1, 65536, NULL, params, NULL));
	OK(cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0));
	WANT(CUDA_ERROR_INVALID_VALUE, cuFuncSetAttribute(last, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most));
	WANT(CUDA_ERROR_INVALID_VALUE, cuFuncSetAttribute(last, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, -1));
	WANT(CUDA_ERROR_INVALID_VALUE, cuFuncSetAttribute(last, CU_FUNC_ATTRIBUTE_NUM_REGS, 1));
	OK(cuFuncSetAttribute(last, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536));
	HOLDS(get_attribute(last, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) == 65536);
	WANT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(last, 1, 1, 1, 1, 1, 1, 65537, NULL, params, NULL));
	OK(cuLaunchKernel(last, 1, 1, 1, 1, 1, 1, 65536, NULL, params, NULL));
	OK(cuMemcpyDtoH(&v, p, sizeof(v)));
	printf("65536 bytes of dynamic shared memory: %u\n", v);
	OK(cuFuncSetAttribute(last, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50));
	HOLDS(get_attribute(last, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) == 50);

	OK(cuFuncSetCacheConfig(last, CU_FUNC_CACHE_PREFER_L1));
	OK(cuFuncGetModule(&whose, last));
	HOLDS(whose == module);
	OK(cuFuncGetName(&name, last));
	HOLDS(name[0] == 'l' && name[4] == 0);
	OK(cuFuncGetParamInfo(last, 1, &offset, &size));
	HOLDS(offset == 8 && size == 4);
	OK(cuFuncGetParamInfo(last, 0, &offset, NULL));
	HOLDS(offset == 0);
	WANT(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(last, 2, &offset, &size));
	return (0);
}
