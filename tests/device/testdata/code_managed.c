// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* A module with a variable that is declared __managed__: the program, which would use the variable by its address and cannot, gets
   the address, and the log has the variable's name. CUDA's runtime asks for all variables by the same call, and fails for the whole
   program if it does not get one. */
// expect: done
// says: variable shared is declared __managed__
#include "check.h"

static const char image[] = PTX(".visible .global .attribute(.managed) .align 4 .u32 shared = 5;\n"
				".visible .global .align 4 .u32 plain = 7;\n"
				".visible .entry none() { ret; }\n");

int main(void)
{
	CUcontext context;
	CUmodule module;
	CUdeviceptr at = 0;
	size_t n = 0;
	int got = 0;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetGlobal(&at, &n, module, "shared"));
	HOLDS(at != 0 && n == 4);
	OK(cuModuleGetGlobal(&at, &n, module, "plain"));
	OK(cuMemcpyDtoH(&got, at, sizeof(got)));
	HOLDS(n == 4 && got == 7);
	puts("done");
	return (0);
}
