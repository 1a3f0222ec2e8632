// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// software: real devices are not asked for the limit of launches that wait

// A kernel's threads launch kernels, also where a graph has the kernel. A program whose PTX is not linked with CUDA's
// device runtime, or which needs what the device runtime lacks here, is refused by name.
// expect: 2 launches may wait
// expect: child 0 of block 0
// expect: child 0 of block 1
// expect: the last
// expect: in a graph
// expect: child 0 of block 0
// expect: child 0 of block 1
// expect: the last
// says: __cuda_syscall_cnpv2GetDevice is not supported: dynamic parallelism
// says: cudaLaunchDeviceV2 is not supported: the text is not linked with CUDA's device runtime
// says: cnpLaunchDeviceV2 is not supported: the first form of dynamic parallelism

#include "check.h"

#define EXTERN                                                                                                      \
	".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);\n"                                   \
	".extern .func (.param .b64 r) __cuda_syscall_cnpv2GetParameterBufferV2(.param .b64 f, .param .align 4 .b8 g[12],\n" \
	"	.param .align 4 .b8 b[12], .param .b32 s);\n"                                                       \
	".extern .func (.param .b32 r) __cuda_syscall_cnpv2LaunchDeviceV2(.param .b64 buffer, .param .b64 stream);\n"

/* "child %d of block %d\n", and "the last\n" */
static const char image[] = PTX(EXTERN
	".global .align 1 .b8 format[] = { 99, 104, 105, 108, 100, 32, 37, 100, 32, 111, 102, 32, 98, 108, 111, 99, 107, 32, 37, 100, 10, 0 };\n"
	".global .align 1 .b8 end[] = { 116, 104, 101, 32, 108, 97, 115, 116, 10, 0 };\n"
	".visible .entry child(.param .u32 t, .param .u32 b)\n"
	"{\n"
	".local .align 8 .b8 args[8]; .reg .u32 %b, %t; .reg .u64 %f, %a, %l;\n"
	"ld.param.u32 %t, [t]; ld.param.u32 %b, [b];\n"
	"mov.u64 %l, args; st.local.u32 [%l], %t; st.local.u32 [%l+4], %b; cvta.local.u64 %a, %l;\n"
	"mov.u64 %f, format; cvta.global.u64 %f, %f;\n"
	"{ .param .b64 p0; st.param.b64 [p0], %f; .param .b64 p1; st.param.b64 [p1], %a; .param .b32 r;\n"
	"call.uni (r), vprintf, (p0, p1); }\n"
	"ret;\n"
	"}\n"
	".visible .entry last()\n"
	"{\n"
	".reg .u64 %f;\n"
	"mov.u64 %f, end; cvta.global.u64 %f, %f;\n"
	"{ .param .b64 p0; st.param.b64 [p0], %f; .param .b64 p1; st.param.b64 [p1], 0; .param .b32 r;\n"
	"call.uni (r), vprintf, (p0, p1); }\n"
	"ret;\n"
	"}\n"
	/* The thread of each block launches a child; that of the first has last follow the whole grid. */
	".visible .entry parent()\n"
	"{\n"
	".reg .u32 %t, %b, %n; .reg .u64 %f, %buffer, %stream; .reg .pred %q;\n"
	"mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u64 %stream, 3; mov.u64 %f, last;\n"
	"add.u32 %n, %t, %b; setp.ne.u32 %q, %n, 0; @%q bra CHILD;\n"
	"AGAIN:\n"
	"{ .param .b64 p0; .param .align 4 .b8 p1[12]; .param .align 4 .b8 p2[12]; .param .b32 p3; .param .b64 r;\n"
	"st.param.b64 [p0], %f; st.param.b32 [p1], 1; st.param.b32 [p1+4], 1; st.param.b32 [p1+8], 1;\n"
	"st.param.b32 [p2], 1; st.param.b32 [p2+4], 1; st.param.b32 [p2+8], 1; st.param.b32 [p3], 0;\n"
	"call (r), __cuda_syscall_cnpv2GetParameterBufferV2, (p0, p1, p2, p3); ld.param.b64 %buffer, [r]; }\n"
	"setp.eq.u64 %q, %buffer, 0; @%q trap;\n"
	"setp.eq.u64 %q, %stream, 3; @%q bra LAUNCH;\n"
	"st.u32 [%buffer], %t; st.u32 [%buffer+4], %b;\n"
	"LAUNCH:\n"
	"{ .param .b64 p0; .param .b64 p1; .param .b32 r; st.param.b64 [p0], %buffer; st.param.b64 [p1], %stream;\n"
	"call (r), __cuda_syscall_cnpv2LaunchDeviceV2, (p0, p1); ld.param.b32 %n, [r]; }\n"
	"setp.ne.u32 %q, %n, 0; @%q trap;\n"
	"setp.eq.u64 %q, %stream, 0; @%q ret;\n"
	"CHILD:\n"
	"mov.u64 %stream, 0; mov.u64 %f, child; bra AGAIN;\n"
	"}\n");

static const char refused[] = PTX(
	".extern .func (.param .b32 r) __cuda_syscall_cnpv2GetDevice(.param .b64 p);\n"
	".extern .func (.param .b32 r) cudaLaunchDeviceV2(.param .b64 buffer, .param .b64 stream);\n"
	".extern .func (.param .b32 r) cnpLaunchDeviceV2(.param .b64 buffer, .param .b64 stream);\n"
	".visible .entry asks() { .param .b64 p; .param .b32 r; call (r), __cuda_syscall_cnpv2GetDevice, (p); ret; }\n"
	".visible .entry unlinked() { .param .b64 p; .param .b64 s; .param .b32 r; call (r), cudaLaunchDeviceV2, (p, s); ret; }\n"
	".visible .entry old() { .param .b64 p; .param .b64 s; .param .b32 r; call (r), cnpLaunchDeviceV2, (p, s); ret; }\n");

int main(void)
{
	CUmodule module, other;
	CUfunction parent, f;
	CUgraph graph;
	CUgraphExec exec;
	CUgraphNode node;
	CUDA_KERNEL_NODE_PARAMS params = { .gridDimX = 2, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1 };
	size_t limit;

	open_context();
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&parent, module, "parent"));
	OK(cuCtxGetLimit(&limit, CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT));
	HOLDS(limit == 2048);
	OK(cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 2));
	WANT(CUDA_ERROR_UNSUPPORTED_LIMIT, cuCtxGetLimit(&limit, CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH));
	printf("2 launches may wait\n");
	fflush(stdout);
	OK(cuLaunchKernel(parent, 2, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	OK(cuCtxSynchronize());
	printf("in a graph\n");
	fflush(stdout);
	params.func = parent;
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddKernelNode(&node, graph, NULL, 0, &params));
	OK(cuGraphInstantiate(&exec, graph, 0));
	OK(cuGraphLaunch(exec, NULL));
	OK(cuCtxSynchronize());
	OK(cuModuleLoadData(&other, refused));
	WANT(CUDA_ERROR_NOT_SUPPORTED, cuModuleGetFunction(&f, other, "asks"));
	WANT(CUDA_ERROR_NOT_SUPPORTED, cuModuleGetFunction(&f, other, "unlinked"));
	WANT(CUDA_ERROR_NOT_SUPPORTED, cuModuleGetFunction(&f, other, "old"));
	return (0);
}
