// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Launches kernels with threads that launch kernels, in the block's stream, to be forgotten and as tail launches, and prints
// in which order all blocks ran. Whatever happens to the device server, the output is the same.
// limit: 60s

#include "check.h"

#include <string.h>

static const char image[] = PTX(
	".extern .func (.param .b64 r) __cuda_syscall_cnpv2GetParameterBufferV2(.param .b64 f, .param .align 4 .b8 g[12],\n"
	"	.param .align 4 .b8 b[12], .param .b32 s);\n"
	".extern .func (.param .b32 r) __cuda_syscall_cnpv2LaunchDeviceV2(.param .b64 buffer, .param .b64 stream);\n"
	/* Each block notes its number; each of 4 threads launches a kernel of 2 blocks, unless depth is 0. */
	".visible .entry node(.param .u64 log, .param .u32 id, .param .u32 depth)\n"
	"{\n"
	".reg .u32 %id, %depth, %t, %b, %at, %w; .reg .u64 %log, %a, %f, %buffer, %stream; .reg .pred %q;\n"
	"ld.param.u64 %log, [log]; ld.param.u32 %id, [id]; ld.param.u32 %depth, [depth];\n"
	"mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x;\n"
	"setp.ne.u32 %q, %t, 0; @%q bra LAUNCH;\n"
	"atom.global.add.u32 %at, [%log], 1;\n"
	"mad.lo.u32 %w, %id, 2, %b; mul.wide.u32 %a, %at, 4; add.u64 %a, %a, %log; st.global.u32 [%a+4], %w;\n"
	"LAUNCH:\n"
	"setp.eq.u32 %q, %depth, 0; @%q ret;\n"
	"sub.u32 %depth, %depth, 1; mad.lo.u32 %id, %id, 2, %b; mad.lo.u32 %id, %id, 4, %t; add.u32 %id, %id, 1;\n"
	"mov.u64 %f, node; cvt.u64.u32 %stream, %t; setp.lt.u32 %q, %t, 3; @%q mov.u64 %stream, 0;\n"
	"setp.eq.u32 %q, %t, 1; @%q mov.u64 %stream, 4;\n"
	"{ .param .b64 p0; .param .align 4 .b8 p1[12]; .param .align 4 .b8 p2[12]; .param .b32 p3; .param .b64 r;\n"
	"st.param.b64 [p0], %f; st.param.b32 [p1], 2; st.param.b32 [p1+4], 1; st.param.b32 [p1+8], 1;\n"
	"st.param.b32 [p2], 4; st.param.b32 [p2+4], 1; st.param.b32 [p2+8], 1; st.param.b32 [p3], 0;\n"
	"call.uni (r), __cuda_syscall_cnpv2GetParameterBufferV2, (p0, p1, p2, p3); ld.param.b64 %buffer, [r]; }\n"
	"setp.eq.u64 %q, %buffer, 0; @%q trap;\n"
	"st.u64 [%buffer], %log; st.u32 [%buffer+8], %id; st.u32 [%buffer+12], %depth;\n"
	"{ .param .b64 p0; .param .b64 p1; .param .b32 r; st.param.b64 [p0], %buffer; st.param.b64 [p1], %stream;\n"
	"call.uni (r), __cuda_syscall_cnpv2LaunchDeviceV2, (p0, p1); ld.param.b32 %w, [r]; }\n"
	"setp.ne.u32 %q, %w, 0; @%q trap;\n"
	"ret;\n"
	"}\n");

enum { DEPTH = 4, BLOCKS = 2 + 16 + 128 + 1024 + 8192, STEPS = 10 };

static unsigned int words[1 + BLOCKS];

int main(void)
{
	CUmodule module;
	CUfunction node;
	CUdeviceptr log;

	open_context();
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&node, module, "node"));
	OK(cuMemAlloc(&log, sizeof(words)));
	for (unsigned int step = 0; step < STEPS; ++step) {
		unsigned int depth = DEPTH, h = 2166136261u;
		void *params[] = { &log, &step, &depth };

		OK(cuMemsetD32(log, 0, 1 + BLOCKS));
		OK(cuLaunchKernel(node, 2, 1, 1, 4, 1, 1, 0, NULL, params, NULL));
		OK(cuMemcpyDtoH(words, log, sizeof(words)));
		for (int i = 0; i < 1 + BLOCKS; ++i)
			h = (h ^ words[i]) * 16777619u;
		printf("step %u: %u blocks, %08x\n", step, words[0], h);
		fflush(stdout);
	}
	return (0);
}
