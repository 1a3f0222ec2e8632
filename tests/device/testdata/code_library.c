// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// A library belongs to no context; its kernels are functions in each.
// expect: 15 kernels of 3 launches in 2 contexts

#include "check.h"

#include <string.h>

static const char image[] = PTX(
	".visible .global .align 4 .u32 step = 5;\n"
	".visible .entry add(.param .u64 p)\n"
	"{\n"
	".reg .u64 %p; .reg .u32 %v; ld.param.u64 %p, [p]; ld.global.u32 %v, [step]; red.global.add.u32 [%p], %v; ret;\n"
	"}\n"
	".visible .entry other()\n"
	"{ .shared .align 4 .b8 s[256]; st.shared.u32 [s], 1; ret; }\n");

int main(void)
{
	CUlibrary library, whose;
	CUkernel add, again, all[4];
	CUfunction f, g, in_second;
	CUmodule module, same;
	CUcontext first, second;
	CUdeviceptr p, step, other_step;
	unsigned int count, v = 0;
	int value;
	size_t n;
	void *params[] = { &p };
	const char *name;
	CUlibraryOption preserved = CU_LIBRARY_BINARY_IS_PRESERVED;
	void *yes = (void *)1;

	OK(cuInit(0));
	/* Without any context. */
	WANT(CUDA_ERROR_INVALID_VALUE, cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, &yes, 1));
	OK(cuLibraryLoadData(&library, image, NULL, NULL, 0, &preserved, NULL, 1));
	OK(cuLibraryUnload(library));
	OK(cuLibraryLoadData(&library, image, NULL, NULL, 0, &preserved, &yes, 1));
	OK(cuLibraryGetKernel(&add, library, "add"));
	OK(cuLibraryGetKernel(&again, library, "add"));
	HOLDS(add == again);
	WANT(CUDA_ERROR_NOT_FOUND, cuLibraryGetKernel(&again, library, "none"));
	WANT(CUDA_ERROR_INVALID_CONTEXT, cuKernelGetFunction(&f, add));
	OK(cuLibraryGetKernelCount(&count, library));
	HOLDS(count == 2);
	OK(cuLibraryEnumerateKernels(all, 2, library));
	OK(cuKernelGetName(&name, all[1]));
	HOLDS(strcmp(name, "other") == 0);
	OK(cuKernelGetLibrary(&whose, add));
	HOLDS(whose == library);
	OK(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, all[1], 0));
	HOLDS(value == 256);
	OK(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60000, add, 0));
	WANT(CUDA_ERROR_INVALID_VALUE, cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 20, add, 0));
	WANT(CUDA_ERROR_INVALID_DEVICE, cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1, add, 9));

	OK(cuCtxCreate(&first, 0, 0));
	OK(cuMemAlloc(&p, 4));
	OK(cuMemcpyHtoD(p, &v, 4));
	/* A kernel is launched like a function, with as much shared memory as was set. */
	OK(cuLaunchKernel((CUfunction)add, 1, 1, 1, 1, 1, 1, 60000, NULL, params, NULL));
	WANT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel((CUfunction)add, 1, 1, 1, 1, 1, 1, 60001, NULL, params, NULL));
	OK(cuKernelGetFunction(&f, add));
	OK(cuKernelGetFunction(&g, add));
	HOLDS(f == g);
	OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	OK(cuLibraryGetModule(&module, library));
	OK(cuLibraryGetModule(&same, library));
	HOLDS(module == same);
	OK(cuModuleGetFunction(&g, module, "add"));
	HOLDS(f == g);
	WANT(CUDA_ERROR_NOT_PERMITTED, cuModuleUnload(module));
	OK(cuLibraryGetGlobal(&step, &n, library, "step"));
	HOLDS(n == 4);
	OK(cuCtxSynchronize());

	OK(cuCtxCreate(&second, 0, 0));
	OK(cuLibraryGetGlobal(&other_step, NULL, library, "step"));
	HOLDS(step != other_step);
	OK(cuKernelGetFunction(&in_second, add));
	HOLDS(in_second != f);
	OK(cuLaunchKernel((CUfunction)add, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	OK(cuMemcpyDtoH(&v, p, 4));
	printf("%u kernels of 3 launches in 2 contexts\n", v);

	/* With a context the setting goes there; the other context is as before. */
	OK(cuCtxDestroy(second));
	OK(cuCtxSetCurrent(first));
	OK(cuLaunchKernel((CUfunction)add, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	OK(cuLibraryUnload(library));
	WANT(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel((CUfunction)add, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	WANT(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	WANT(CUDA_ERROR_INVALID_HANDLE, cuLibraryUnload(library));
	WANT(CUDA_ERROR_INVALID_HANDLE, cuKernelGetName(&name, add));
	WANT(CUDA_ERROR_INVALID_IMAGE, cuLibraryLoadData(&library, "nothing", NULL, NULL, 0, NULL, NULL, 0));
	OK(cuCtxSynchronize());
	return (0);
}
