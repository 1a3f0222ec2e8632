// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Blocks of a cooperative launch wait for each other: all of them are there.
// expect: 64 blocks met 3 times

#include "check.h"

static const char image[] = PTX(
	".visible .entry meet(.param .u64 p, .param .u32 blocks)\n"
	"{\n"
	".reg .u64 %p; .reg .u32 %n, %want, %v, %round, %t; .reg .pred %q;\n"
	"ld.param.u64 %p, [p]; ld.param.u32 %n, [blocks]; mov.u32 %round, 0; mov.u32 %want, 0;\n"
	"again:\n"
	"bar.sync 0; mov.u32 %t, %tid.x; setp.ne.u32 %q, %t, 0; add.u32 %want, %want, %n; @%q bra met;\n"
	"membar.gl; red.global.add.u32 [%p], 1;\n"
	"wait: ld.volatile.global.u32 %v, [%p]; setp.lt.u32 %q, %v, %want; @%q bra wait;\n"
	"met: bar.sync 0; add.u32 %round, %round, 1; setp.lt.u32 %q, %round, 3; @%q bra again;\n"
	"ret;\n"
	"}\n");

int main(void)
{
	CUmodule module;
	CUfunction meet;
	CUdeviceptr p;
	unsigned int blocks = 64, v = 0;
	void *params[] = { &p, &blocks };
	CUlaunchAttribute together = { .id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE };
	CUlaunchConfig config = { 64, 1, 1, 64, 1, 1, 0, NULL, &together, 1 };

	open_context();
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&meet, module, "meet"));
	OK(cuMemAlloc(&p, 4));
	OK(cuMemcpyHtoD(p, &v, 4));
	OK(cuLaunchCooperativeKernel(meet, 64, 1, 1, 64, 1, 1, 0, NULL, params));
	OK(cuMemcpyDtoH(&v, p, 4));
	HOLDS(v == 3 * 64);
	v = 0;
	OK(cuMemcpyHtoD(p, &v, 4));
	together.value.cooperative = 1;
	OK(cuLaunchKernelEx(&config, meet, params, NULL));
	OK(cuMemcpyDtoH(&v, p, 4));
	printf("%u blocks met %u times\n", blocks, v / blocks);
	return (0);
}
