// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Pinned memory that kernels follow pointers into, memory that is registered, and a graph that works on both, while the program writes
// there itself.
// devices: 2
// limit: 60s

#include "check.h"

#include <string.h>
#include <sys/mman.h>

static const char image[] = PTX(
	".visible .entry mix(.param .u64 to, .param .u64 from, .param .u32 n, .param .u32 k)\n"
	"{\n"
	".reg .u32 %i, %n, %t, %b, %d, %v, %w, %k; .reg .u64 %p, %q, %o; .reg .pred %c;\n"
	"mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %d, %ntid.x; mad.lo.u32 %i, %b, %d, %t;\n"
	"ld.param.u32 %n, [n]; setp.ge.u32 %c, %i, %n; @%c ret;\n"
	"mul.wide.u32 %o, %i, 4; ld.param.u64 %p, [to]; add.u64 %p, %p, %o; ld.param.u64 %q, [from]; add.u64 %q, %q, %o;\n"
	"ld.param.u32 %k, [k]; ld.global.u32 %v, [%p]; ld.global.u32 %w, [%q];\n"
	"mad.lo.u32 %v, %v, 1664525, %k; add.u32 %v, %v, %w; st.global.u32 [%p], %v;\n"
	"ret;\n"
	"}\n");

enum { N = 30000, STEPS = 120, MANY = 300, SIZE = N * 4 };

static unsigned int *mapped, *shared, *heap, *guarded, *many[MANY];
static CUdeviceptr data;

static unsigned int hash_words(const unsigned int *p, int n)
{
	unsigned int h = 2166136261u;

	for (int i = 0; i < n; ++i)
		h = (h ^ p[i]) * 16777619u;
	return (h);
}

static void launch_kernel(CUfunction f, CUdeviceptr to, const void *from, unsigned int k, CUstream s)
{
	unsigned int n = N;
	void *params[] = { &to, &from, &n, &k };

	OK(cuLaunchKernel(f, (N + 255) / 256, 1, 1, 256, 1, 1, 0, s, params, NULL));
}

/* heap to the device, a kernel on mapped memory, the device to shared memory, which is set in part. */
static CUgraphExec capture_graph(CUfunction mix, CUstream s)
{
	CUgraph graph;
	CUgraphExec exec;

	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	OK(cuMemcpyHtoDAsync(data, heap, SIZE, s));
	launch_kernel(mix, (CUdeviceptr)(uintptr_t)mapped, (const void *)(uintptr_t)data, 5, s);
	OK(cuMemcpyDtoHAsync(shared, data, SIZE, s));
	OK(cuMemsetD32Async((CUdeviceptr)(uintptr_t)(shared + 100), 3, 100, s));
	OK(cuMemcpyDtoHAsync(heap + N / 2, (CUdeviceptr)(uintptr_t)mapped, SIZE / 2, s));
	OK(cuStreamEndCapture(s, &graph));
	OK(cuGraphInstantiate(&exec, graph, 0));
	OK(cuGraphDestroy(graph));
	return (exec);
}

int main(void)
{
	CUcontext ctx[2];
	CUmodule module[2];
	CUfunction mix[2];
	CUstream s[2];
	CUgraphExec exec;
	unsigned int *comes = NULL;

	OK(cuInit(0));
	for (int d = 0; d < 2; ++d) {
		OK(cuDevicePrimaryCtxRetain(&ctx[d], d));
		OK(cuCtxSetCurrent(ctx[d]));
		OK(cuModuleLoadData(&module[d], image));
		OK(cuModuleGetFunction(&mix[d], module[d], "mix"));
		OK(cuStreamCreate(&s[d], CU_STREAM_NON_BLOCKING));
		if (d == 0)
			OK(cuMemHostAlloc((void **)&mapped, SIZE, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
	}
	OK(cuMemAllocHost((void **)&shared, SIZE));
	OK(cuMemAllocHost((void **)&guarded, 3 * 4096));
	HOLDS(mprotect((char *)guarded + 4096, 4096, PROT_NONE) == 0);
	for (int i = 0; i < MANY; ++i) {
		OK(cuMemAllocHost((void **)&many[i], 64));
		many[i][0] = (unsigned int)i;
	}
	heap = malloc(SIZE);
	HOLDS(heap != NULL);
	for (unsigned int i = 0; i < N; ++i) {
		mapped[i] = i * 2654435761u;
		heap[i] = shared[i] = i;
	}
	OK(cuMemHostRegister(heap, SIZE, 0));
	OK(cuCtxSetCurrent(ctx[0]));
	OK(cuMemAlloc(&data, SIZE));
	exec = capture_graph(mix[0], s[0]);
	for (unsigned int step = 0; step < STEPS; ++step) {
		const int d = step % 2;

		OK(cuCtxSetCurrent(ctx[d]));
		/* The program and both devices in turn, with no copy. */
		for (unsigned int i = step; i < N; i += 100)
			mapped[i] ^= step;
		launch_kernel(mix[d], (CUdeviceptr)(uintptr_t)mapped, shared, step, s[d]);
		OK(cuStreamSynchronize(s[d]));
		if (step % 5 == 1) {
			OK(cuCtxSetCurrent(ctx[0]));
			OK(cuGraphLaunch(exec, s[0]));
			OK(cuStreamSynchronize(s[0]));
		}
		if (step % 4 == 0) {
			if (comes)
				OK(cuMemFreeHost(comes));
			OK(cuMemHostAlloc((void **)&comes, 8192 + 4096 * step, CU_MEMHOSTALLOC_DEVICEMAP));
			memset(comes, (int)step, 8192);
		}
		OK(cuMemsetD32((CUdeviceptr)(uintptr_t)comes, comes[1] + step, 2));
		OK(cuCtxSynchronize());
		/* Copied when the graph is carried out: from registered memory, which is no device's. */
		OK(cuMemcpyHtoDAsync((CUdeviceptr)(uintptr_t)many[step], heap + step, 64, s[d]));
		OK(cuMemsetD32Async((CUdeviceptr)(uintptr_t)guarded, step, 4, s[d]));
		OK(cuStreamSynchronize(s[d]));
		printf("step %u %08x %08x %08x comes %08x many %08x %u guarded %u\n", step, hash_words(mapped, N), hash_words(shared, N), hash_words(heap, N),
		       hash_words(comes, 2048), hash_words(many[step], 16), many[MANY - 1][0], guarded[3]);
		fflush(stdout);
	}
	OK(cuMemHostUnregister(heap));
	OK(cuMemFreeHost(mapped));
	OK(cuMemFreeHost(shared));
	return (0);
}
