// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// A fault of a kernel is found when the kernel is waited for, and stays.
// expect: CUDA_ERROR_MISALIGNED_ADDRESS
// expect: CUDA_ERROR_MISALIGNED_ADDRESS
// expect: CUDA_ERROR_MISALIGNED_ADDRESS

#include "check.h"

static const char image[] = PTX(
	".visible .entry fault(.param .u64 p)\n"
	"{ .reg .u64 %p; ld.param.u64 %p, [p]; st.global.u32 [%p+2], 1; ret; }\n");

int main(void)
{
	CUmodule module;
	CUfunction fault;
	CUdeviceptr p, q;
	void *params[] = { &p };

	open_context();
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&fault, module, "fault"));
	OK(cuMemAlloc(&p, 64));
	OK(cuLaunchKernel(fault, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	printf("%s\n", name_of(cuCtxSynchronize()));
	printf("%s\n", name_of(cuLaunchKernel(fault, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL)));
	printf("%s\n", name_of(cuMemAlloc(&q, 64)));
	return (0);
}
