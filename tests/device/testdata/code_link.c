// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Code is linked of two texts, and the result is loaded.
// expect: 49

#include "check.h"

#include <string.h>

static const char caller[] = PTX(
	".extern .func (.param .u32 r) square(.param .u32 x);\n"
	".visible .entry f(.param .u64 p, .param .u32 v)\n"
	"{\n"
	".reg .u64 %p; .reg .u32 %v, %r;\n"
	"ld.param.u64 %p, [p]; ld.param.u32 %v, [v];\n"
	"{ .param .u32 x; st.param.u32 [x], %v; .param .u32 r; call.uni (r), square, (x); ld.param.u32 %r, [r]; }\n"
	"st.global.u32 [%p], %r; ret;\n"
	"}\n");
static const char callee[] = PTX(
	".visible .func (.param .u32 r) square(.param .u32 x)\n"
	"{ .reg .u32 %x; ld.param.u32 %x, [x]; mul.lo.u32 %x, %x, %x; st.param.u32 [r], %x; ret; }\n");

int main(void)
{
	CUlinkState state, alone;
	CUmodule module;
	CUfunction f;
	CUdeviceptr p;
	unsigned int v = 7;
	char errors[256], *copy;
	size_t n;
	void *image, *again, *params[] = { &p, &v };
	CUjit_option names[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
	void *values[] = { errors, (void *)sizeof(errors) };

	open_context();
	OK(cuLinkCreate(0, NULL, NULL, &state));
	OK(cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)caller, sizeof(caller), "caller", 0, NULL, NULL));
	OK(cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)callee, strlen(callee), NULL, 0, NULL, NULL));
	OK(cuLinkComplete(state, &image, &n));
	HOLDS(n > 0);
	WANT(CUDA_ERROR_INVALID_HANDLE, cuLinkComplete(state, &again, NULL));
	OK(cuModuleLoadData(&module, image));
	copy = malloc(n);
	HOLDS(copy != NULL);
	memcpy(copy, image, n);
	OK(cuLinkDestroy(state));
	WANT(CUDA_ERROR_INVALID_HANDLE, cuLinkDestroy(state));
	OK(cuModuleUnload(module));
	OK(cuModuleLoadData(&module, copy));
	free(copy);
	OK(cuModuleGetFunction(&f, module, "f"));
	OK(cuMemAlloc(&p, 4));
	OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	OK(cuMemcpyDtoH(&v, p, 4));
	printf("%u\n", v);

	/* A symbol that no module defines is refused, and named. */
	OK(cuLinkCreate(2, names, values, &alone));
	HOLDS(errors[0] == 0);
	OK(cuLinkAddData(alone, CU_JIT_INPUT_PTX, (void *)caller, sizeof(caller), "caller", 0, NULL, NULL));
	HOLDS(cuLinkComplete(alone, &image, &n) != CUDA_SUCCESS);
	HOLDS(strstr(errors, "square") != NULL && strlen(errors) == (size_t)values[1]);
	WANT(CUDA_ERROR_INVALID_IMAGE, cuLinkAddData(alone, CU_JIT_INPUT_CUBIN, "\177ELF\002\001\001", 8, "code", 0, NULL, NULL));
	WANT(CUDA_ERROR_NOT_SUPPORTED, cuLinkAddData(alone, CU_JIT_INPUT_NVVM, "BC", 2, "code", 0, NULL, NULL));
	WANT(CUDA_ERROR_FILE_NOT_FOUND, cuLinkAddFile(alone, CU_JIT_INPUT_PTX, "/nonexistent", 0, NULL, NULL));
	WANT(CUDA_ERROR_INVALID_VALUE, cuLinkAddData(alone, CU_JIT_INPUT_PTX, NULL, 8, "nothing", 0, NULL, NULL));
	OK(cuLinkDestroy(alone));
	OK(cuCtxSynchronize());
	return (0);
}
