// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* A kernel that never ends; says so when the kernel is queued, and waits for the kernel. */
#include "../check.h"

static const char image[] = PTX(".visible .entry spin()\n{\nagain: bra again;\n}\n");

int main(void)
{
	CUmodule module;
	CUfunction spin;
	CUresult r;

	open_context();
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&spin, module, "spin"));
	OK(cuLaunchKernel(spin, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL));
	puts("spinning");
	fflush(stdout);
	r = cuCtxSynchronize();
	HOLDS(r != CUDA_SUCCESS);
	return (0);
}
