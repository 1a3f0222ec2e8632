// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Graphs that allocate: memory that they leave keeps its address and its bytes, is freed by another graph, by the program or by the graph's own
// node, and a graph that was destroyed lives on in its executable graphs.
// limit: 60s

#include "check.h"

static const char image[] = PTX(
	".visible .entry turn(.param .u64 p, .param .u32 k)\n"
	"{\n"
	".reg .u32 %i, %t, %b, %d, %v, %k; .reg .u64 %p, %o;\n"
	"mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %d, %ntid.x; mad.lo.u32 %i, %b, %d, %t;\n"
	"mul.wide.u32 %o, %i, 4; ld.param.u64 %p, [p]; add.u64 %p, %p, %o;\n"
	"ld.param.u32 %k, [k]; ld.global.u32 %v, [%p]; mad.lo.u32 %v, %v, 22695477, %k; add.u32 %v, %v, %i; st.global.u32 [%p], %v;\n"
	"ret;\n"
	"}\n");

enum { N = 8192, SIZE = N * 4, STEPS = 100 };

static CUfunction turn;
static CUstream s;

static void launch_turn(CUdeviceptr p, unsigned int k)
{
	void *params[] = { &p, &k };

	OK(cuLaunchKernel(turn, N / 128, 1, 1, 128, 1, 1, 0, s, params, NULL));
}

/* Memory that is left allocated, set and turned. */
static CUgraphExec make_leaving(CUdeviceptr *m, unsigned int value)
{
	CUgraph graph;
	CUgraphExec exec;

	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	OK(cuMemAllocAsync(m, SIZE, s));
	OK(cuMemsetD32Async(*m, value, N, s));
	launch_turn(*m, value);
	OK(cuStreamEndCapture(s, &graph));
	OK(cuGraphInstantiate(&exec, graph, 0));
	OK(cuGraphDestroy(graph));
	return (exec);
}

/* Made node by node: the graph allocates, works there, copies to memory of the program, and frees. */
static CUgraphExec make_whole(CUdeviceptr to, CUgraph *graph)
{
	CUDA_MEM_ALLOC_NODE_PARAMS alloc = {
		.poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } },
		.bytesize = SIZE,
	};
	CUgraphNode node, next;
	CUgraphExec exec;
	CUDA_MEMCPY3D copy = { 0 };
	CUDA_MEMSET_NODE_PARAMS set = { .value = 77, .elementSize = 4, .width = N, .height = 1 };
	CUcontext ctx;

	OK(cuCtxGetCurrent(&ctx));
	OK(cuGraphCreate(graph, 0));
	OK(cuGraphAddMemAllocNode(&node, *graph, NULL, 0, &alloc));
	set.dst = alloc.dptr;
	OK(cuGraphAddMemsetNode(&next, *graph, &node, 1, &set, ctx));
	copy.srcType = copy.dstType = CU_MEMORYTYPE_DEVICE;
	copy.srcDevice = alloc.dptr;
	copy.dstDevice = to;
	copy.width = SIZE;
	copy.height = copy.depth = 1;
	OK(cuGraphAddMemcpyNode(&node, *graph, &next, 1, &copy, ctx));
	OK(cuGraphAddMemFreeNode(&next, *graph, &node, 1, alloc.dptr));
	OK(cuGraphInstantiate(&exec, *graph, 0));
	printf("within: %llx\n", alloc.dptr);
	return (exec);
}

static unsigned int hash_words(CUdeviceptr p)
{
	static unsigned int words[N];
	unsigned int h = 2166136261u;

	OK(cuMemcpyDtoHAsync(words, p, SIZE, s));
	OK(cuStreamSynchronize(s));
	for (int i = 0; i < N; ++i)
		h = (h ^ words[i]) * 16777619u;
	return (h);
}

int main(void)
{
	CUdeviceptr left, other, kept, mine, extra;
	CUgraphExec first, second, third, inner, exec;
	CUgraph graph, freeing;
	CUgraphNode node;
	CUmodule module;
	size_t available, total;

	open_context();
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&turn, module, "turn"));
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc(&mine, SIZE));
	first = make_leaving(&left, 3);
	second = make_leaving(&other, 5);
	third = make_leaving(&kept, 7);
	inner = make_whole(mine, &graph);
	/* A graph that frees the memory that another graph leaves. */
	OK(cuGraphCreate(&freeing, 0));
	OK(cuGraphAddMemFreeNode(&node, freeing, NULL, 0, other));
	OK(cuGraphInstantiate(&exec, freeing, 0));
	OK(cuGraphLaunch(third, s));
	printf("left %llx other %llx kept %llx mine %llx\n", left, other, kept, mine);
	for (unsigned int step = 0; step < STEPS; ++step) {
		OK(cuGraphLaunch(first, s));
		OK(cuGraphLaunch(second, s));
		OK(cuGraphLaunch(inner, s));
		launch_turn(left, step);
		launch_turn(kept, step);
		launch_turn(other, step);
		printf("step %u %08x %08x %08x %08x", step, hash_words(left), hash_words(other), hash_words(kept), hash_words(mine));
		if (step % 2)
			OK(cuMemFree(left));
		else
			OK(cuMemFreeAsync(left, s));
		WANT(CUDA_ERROR_INVALID_VALUE, cuMemFree(left));
		OK(cuGraphLaunch(exec, s));
		OK(cuStreamSynchronize(s));
		if (step % 10 == 9) {
			/* The memory comes and goes, and other memory has its address for a while. */
			OK(cuGraphExecDestroy(first));
			OK(cuMemAlloc(&extra, SIZE));
			first = make_leaving(&left, step);
			OK(cuMemFree(extra));
		}
		OK(cuMemGetInfo(&available, &total));
		printf(" at %llx free %zu\n", left, available);
		fflush(stdout);
	}
	OK(cuMemFree(kept));
	OK(cuGraphExecDestroy(inner));
	OK(cuGraphDestroy(graph));
	OK(cuMemGetInfo(&available, &total));
	printf("free %zu\n", available);
	return (0);
}
