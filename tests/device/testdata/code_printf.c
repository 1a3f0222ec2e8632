// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Text that kernels print is on the program's standard output once the program has waited for them, in a stream's order.
// expect: before
// expect: block 0 says 10
// expect: block 1 says 11
// expect: block 0 says 20
// expect: block 1 says 21
// expect: after

#include "check.h"

static const char image[] = PTX(
	".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);\n"
	".global .align 1 .b8 format[] = { 98, 108, 111, 99, 107, 32, 37, 100, 32, 115, 97, 121, 115, 32, 37, 100, 10, 0 };\n"
	".visible .entry say(.param .u32 v)\n"
	"{\n"
	".local .align 8 .b8 args[8]; .reg .u32 %b, %v; .reg .u64 %f, %a, %l;\n"
	"mov.u32 %b, %ctaid.x; ld.param.u32 %v, [v]; add.u32 %v, %v, %b;\n"
	"mov.u64 %l, args; st.local.u32 [%l], %b; st.local.u32 [%l+4], %v; cvta.local.u64 %a, %l;\n"
	"mov.u64 %f, format; cvta.global.u64 %f, %f;\n"
	"{ .param .b64 p0; st.param.b64 [p0], %f; .param .b64 p1; st.param.b64 [p1], %a; .param .b32 r;\n"
	"call.uni (r), vprintf, (p0, p1); }\n"
	"ret;\n"
	"}\n");

int main(void)
{
	CUmodule module;
	CUfunction say;
	int v = 10;
	void *params[] = { &v };

	open_context();
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&say, module, "say"));
	printf("before\n");
	fflush(stdout);
	OK(cuLaunchKernel(say, 2, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	v = 20; /* the text was read at the call */
	OK(cuLaunchKernel(say, 2, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	OK(cuCtxSynchronize());
	printf("after\n");
	return (0);
}
