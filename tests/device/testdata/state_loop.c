// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Works on two devices, with streams, events, a module with variables and a library, of which some are made and ended on the
// way, and prints its results.
// devices: 2
// limit: 60s

#include "check.h"

#include <string.h>

static const char image[] = PTX(
	".visible .global .align 4 .u32 calls = 0;\n"
	".visible .global .align 4 .b8 table[64];\n"
	".visible .entry mix(.param .u64 p, .param .u32 n, .param .u32 k)\n"
	"{\n"
	".reg .u32 %i, %n, %t, %b, %d, %v, %k, %old; .reg .u64 %p, %o; .reg .pred %q;\n"
	"mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %d, %ntid.x; mad.lo.u32 %i, %b, %d, %t;\n"
	"ld.param.u32 %n, [n]; setp.ge.u32 %q, %i, %n; @%q ret;\n"
	"mul.wide.u32 %o, %i, 4; ld.param.u64 %p, [p]; add.u64 %p, %p, %o;\n"
	"ld.param.u32 %k, [k]; ld.global.u32 %v, [%p];\n"
	"mad.lo.u32 %v, %v, 1664525, %k; xor.b32 %v, %v, %i; st.global.u32 [%p], %v;\n"
	"setp.ne.u32 %q, %i, 0; @%q ret;\n"
	"atom.global.add.u32 %old, [calls], 1;\n"
	"ret;\n"
	"}\n");

enum { N = 20000, STEPS = 40, STREAMS = 3 };

static unsigned int words[N];

static unsigned int hash_words(CUdeviceptr p, CUstream s)
{
	unsigned int h = 2166136261u;

	OK(cuMemcpyDtoHAsync(words, p, sizeof(words), s));
	OK(cuStreamSynchronize(s));
	for (int i = 0; i < N; ++i)
		h = (h ^ words[i]) * 16777619u;
	return (h);
}

static void launch_kernel(CUfunction f, CUdeviceptr p, unsigned int k, CUstream s)
{
	unsigned int n = N;
	void *params[] = { &p, &n, &k };

	OK(cuLaunchKernel(f, (N + 255) / 256, 1, 1, 256, 1, 1, 0, s, params, NULL));
}

int main(void)
{
	CUcontext ctx[2];
	CUmodule module[2];
	CUfunction mix[2], as_function;
	CUlibrary library;
	CUkernel kernel;
	CUdeviceptr data[2][STREAMS], calls, extra, last = 0;
	CUstream stream[2][STREAMS], side;
	CUevent first, done, moment;
	unsigned int n;
	size_t size, available, total;
	unsigned long long id;
	float ms;

	OK(cuInit(0));
	OK(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetKernel(&kernel, library, "mix"));
	for (int d = 0; d < 2; ++d) {
		OK(cuDevicePrimaryCtxRetain(&ctx[d], d));
		OK(cuCtxSetCurrent(ctx[d]));
		OK(cuModuleLoadData(&module[d], image));
		OK(cuModuleGetFunction(&mix[d], module[d], "mix"));
		for (int s = 0; s < STREAMS; ++s) {
			OK(cuStreamCreate(&stream[d][s], CU_STREAM_NON_BLOCKING));
			OK(cuMemAlloc(&data[d][s], sizeof(words)));
			OK(cuMemsetD32Async(data[d][s], 17 * d + s, N, stream[d][s]));
		}
	}
	OK(cuEventCreate(&first, 0));
	OK(cuEventRecord(first, stream[1][0]));
	for (unsigned int step = 0; step < STEPS; ++step) {
		const int d = step % 2;

		OK(cuCtxSetCurrent(ctx[d]));
		OK(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
		for (int s = 0; s < STREAMS; ++s)
			for (int k = 0; k < 4; ++k)
				launch_kernel(mix[d], data[d][s], step + k, stream[d][s]);
		OK(cuEventRecord(done, stream[d][0]));
		OK(cuStreamWaitEvent(stream[d][1], done, 0));
		OK(cuMemcpyDtoDAsync(data[d][1], data[d][0], 1000, stream[d][1]));
		/* The library's kernel, as a kernel and as a function. */
		launch_kernel((CUfunction)kernel, data[d][2], step, stream[d][2]);
		if (step % 7 == 3) {
			OK(cuKernelGetFunction(&as_function, kernel));
			launch_kernel(as_function, data[d][2], step, stream[d][2]);
		}
		/* Things come and go; their addresses are printed. */
		OK(cuMemAlloc(&extra, 1000 + 70000 * (step % 5)));
		if (step % 3 == 0) {
			if (last)
				OK(cuMemFree(last));
			last = extra;
		} else {
			OK(cuMemFree(extra));
		}
		OK(cuEventSynchronize(done));
		OK(cuStreamSynchronize(stream[d][1]));
		OK(cuStreamCreate(&side, 0));
		OK(cuStreamGetId(side, &id));
		launch_kernel(mix[d], data[d][0], id, side);
		OK(cuStreamSynchronize(side));
		OK(cuStreamDestroy(side));
		OK(cuEventDestroy(done));
		OK(cuMemGetInfo(&available, &total));
		printf("step %u %08x %08x %08x extra %llx id %llu free %zu of %zu\n", step, hash_words(data[d][0], stream[d][0]),
		       hash_words(data[d][1], stream[d][1]), hash_words(data[d][2], stream[d][2]), extra, id, available, total);
		fflush(stdout);
	}
	OK(cuEventCreate(&moment, 0));
	OK(cuEventRecord(moment, stream[1][0]));
	OK(cuEventSynchronize(moment));
	OK(cuEventElapsedTime(&ms, first, moment));
	HOLDS(ms > 0 && ms < 100000);
	for (int d = 0; d < 2; ++d) {
		OK(cuCtxSetCurrent(ctx[d]));
		OK(cuCtxSynchronize());
		OK(cuModuleGetGlobal(&calls, &size, module[d], "calls"));
		OK(cuMemcpyDtoH(&n, calls, sizeof(n)));
		printf("device %d: %u calls at %llx\n", d, n, calls);
		OK(cuLibraryGetGlobal(&calls, &size, library, "calls"));
		OK(cuMemcpyDtoH(&n, calls, sizeof(n)));
		printf("device %d: %u of the library at %llx\n", d, n, calls);
		OK(cuModuleUnload(module[d]));
		OK(cuDevicePrimaryCtxRelease(d));
	}
	return (0);
}
