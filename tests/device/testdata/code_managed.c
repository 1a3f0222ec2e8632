// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// software: the pages of managed memory move without a call on real devices

// Variables that are declared __managed__: the program and kernels of all devices use them by the same addresses, from the load of
// their code until that is unloaded. Two modules have variables of their own; a library has the same in all contexts.
// devices: 2
// expect: done

#include "check.h"

#include <stdint.h>
#include <string.h>

static const char image[] = PTX(
	".visible .global .attribute(.managed) .align 4 .u32 shared = 5;\n"
	".visible .global .align 4 .u32 plain = 7;\n"
	".visible .global .attribute(.managed) .align 16 .b8 table[4096] = { 1, 2, 3, 4, 5 };\n"
	".visible .global .align 8 .u64 points = shared;\n"
	".visible .global .attribute(.managed) .align 8 .u64 to_plain = generic(plain);\n"
	".visible .entry step(.param .u64 seen)\n"
	"{\n"
	".reg .u32 %v, %w; .reg .u64 %p;\n"
	"ld.global.u32 %v, [shared]; add.u32 %v, %v, 1; st.global.u32 [shared], %v;\n"
	"ld.global.u64 %p, [points]; ld.global.u32 %v, [%p]; mul.lo.u32 %v, %v, 10; st.global.u32 [%p], %v;\n"
	"ld.global.u32 %w, [plain]; add.u32 %v, %v, %w; st.global.u32 [table+8], %v;\n"
	"ret;\n"
	"}\n"
	".visible .entry look()\n"
	"{ .reg .u32 %w; .reg .u64 %p; ld.global.u64 %p, [to_plain]; ld.u32 %w, [%p]; st.global.u32 [table+12], %w; ret; }\n");
static const char plain_image[] = PTX(".visible .entry none() { ret; }\n");

enum { GLOBAL = 1, HOST = 2 };

static volatile uint32_t *variable(CUmodule m, const char *name, size_t size)
{
	CUdeviceptr at = 0;
	size_t n = 0;

	OK(cuModuleGetGlobal(&at, &n, m, name));
	HOLDS(at != 0 && n == size);
	return ((volatile uint32_t *)at);
}

static void run_kernel(CUfunction f)
{
	CUdeviceptr unused = 0;
	void *params[] = { &unused };

	OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	OK(cuCtxSynchronize());
}

static void check_attributes(CUdeviceptr at)
{
	unsigned int is = 0, type = 0;
	void *host = NULL;

	OK(cuPointerGetAttribute((void *)&is, CU_POINTER_ATTRIBUTE_IS_MANAGED, at));
	OK(cuPointerGetAttribute((void *)&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
	OK(cuPointerGetAttribute((void *)&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, at));
	HOLDS(is == 1 && type == CU_MEMORYTYPE_DEVICE && host == (void *)at);
	OK(cuMemPrefetchAsync(at, 4, 1, NULL));
	OK(cuStreamAttachMemAsync(NULL, at, 0, GLOBAL));
	OK(cuStreamAttachMemAsync(NULL, at, 4, HOST));
	WANT(CUDA_ERROR_INVALID_VALUE, cuStreamAttachMemAsync(NULL, at, 1 << 20, HOST));
	/* The memory goes with the code only. */
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemFree(at & ~(CUdeviceptr)4095));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost((void *)(at & ~(CUdeviceptr)4095)));
}

static void use_modules(void)
{
	CUmodule module, twin;
	CUfunction step, look;
	volatile uint32_t *shared, *table, *other;
	unsigned char bytes[6];
	unsigned int is = 9;

	OK(cuModuleLoadData(&module, image));
	shared = variable(module, "shared", 4);
	table = variable(module, "table", 4096);
	HOLDS(*shared == 5 && table[0] == 0x04030201 && table[1] == 5 && table[1023] == 0);
	check_attributes((CUdeviceptr)shared);
	OK(cuModuleGetFunction(&step, module, "step"));
	run_kernel(step);
	HOLDS(*shared == 60 && table[2] == 67);
	*shared = 8;
	run_kernel(step);
	HOLDS(*shared == 90 && table[2] == 97);
	OK(cuModuleGetFunction(&look, module, "look"));
	run_kernel(look);
	HOLDS(table[3] == 7);
	OK(cuMemcpyDtoH(bytes, (CUdeviceptr)table, sizeof(bytes)));
	HOLDS(memcmp(bytes, "\1\2\3\4\5", 6) == 0);
	OK(cuMemsetD32((CUdeviceptr)shared, 77, 1));
	OK(cuCtxSynchronize());
	HOLDS(*shared == 77);
	/* The name is of each module by itself. */
	OK(cuModuleLoadData(&twin, image));
	other = variable(twin, "shared", 4);
	HOLDS(other != shared && *other == 5 && *shared == 77);
	run_kernel(step);
	HOLDS(*other == 5 && *shared == 780);
	OK(cuModuleUnload(module));
	HOLDS(*other == 5);
	OK(cuPointerGetAttributes(1, (CUpointer_attribute[]){ CU_POINTER_ATTRIBUTE_IS_MANAGED }, (void *[]){ &is }, (CUdeviceptr)shared));
	HOLDS(is == 0);
	OK(cuModuleUnload(twin));
	/* Variables without memory for the program are no memory either. */
	OK(cuModuleLoadData(&module, plain_image));
	OK(cuModuleUnload(module));
}

/* A library, loaded without any context, and used in two. */
static CUlibrary load_library(volatile uint32_t **shared)
{
	CUlibrary library;
	CUdeviceptr at;
	size_t n;

	OK(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetManaged(&at, &n, library, "shared"));
	HOLDS(n == 4);
	*shared = (volatile uint32_t *)at;
	HOLDS(**shared == 5);
	**shared = 1;
	WANT(CUDA_ERROR_NOT_FOUND, cuLibraryGetManaged(&at, &n, library, "plain"));
	WANT(CUDA_ERROR_NOT_FOUND, cuLibraryGetManaged(&at, &n, library, "none"));
	return (library);
}

int main(void)
{
	CUcontext context[2], more;
	CUlibrary library;
	CUmodule module;
	CUfunction step;
	volatile uint32_t *shared;

	OK(cuInit(0));
	library = load_library(&shared);
	for (int d = 0; d < 2; ++d) {
		OK(cuDevicePrimaryCtxRetain(&context[d], d));
		OK(cuCtxSetCurrent(context[d]));
		OK(cuLibraryGetModule(&module, library));
		HOLDS(variable(module, "shared", 4) == shared);
		OK(cuModuleGetFunction(&step, module, "step"));
		run_kernel(step);
		HOLDS(*shared == (d == 0 ? 20 : 210));
	}
	use_modules();
	/* A context takes its modules and their variables with it. */
	for (int i = 0; i < 3; ++i) {
		OK(cuCtxCreate(&more, 0, i % 2));
		OK(cuModuleLoadData(&module, image));
		HOLDS(*variable(module, "shared", 4) == 5);
		OK(cuCtxDestroy(more));
	}
	HOLDS(*shared == 210);
	OK(cuLibraryUnload(library));
	puts("done");
	return (0);
}
