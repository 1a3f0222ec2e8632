// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// expect: captured: nothing happened
// expect: launched 3 times: 33 7 33
// expect: over two streams: 5 nodes, 5 edges
// expect: 44 7 44 called 1
// expect: into a graph: 3 nodes
// expect: by a thread of its own: 2 nodes

/* Work that is captured: over several streams, with dependencies that the program looks at, by several threads. */
#include "check.h"

#include <pthread.h>

static const char image[] = PTX(
	".visible .entry add(.param .u64 a, .param .u32 n)\n"
	"{\n"
	".reg .u32 %n, %x; .reg .u64 %p;\n"
	"ld.param.u64 %p, [a]; ld.param.u32 %n, [n];\n"
	"ld.global.u32 %x, [%p]; add.u32 %x, %x, %n; st.global.u32 [%p], %x;\n"
	"ret;\n"
	"}\n");

static CUfunction add;
static CUdeviceptr a;
static int called;

static void launch_add(CUstream stream, CUdeviceptr at, unsigned int n)
{
	void *params[] = { &at, &n };

	OK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static void count_call(void *user)
{
	++*(int *)user;
}

static size_t count_nodes(CUgraph g)
{
	size_t n = 0;

	OK(cuGraphGetNodes(g, NULL, &n));
	return (n);
}

static size_t count_edges(CUgraph g)
{
	size_t n = 0;

	OK(cuGraphGetEdges(g, NULL, NULL, &n));
	return (n);
}

static void get_words(unsigned int *words)
{
	OK(cuMemcpyDtoH(words, a, 12));
}

static void one_stream(CUstream s, unsigned int *words)
{
	CUgraph g;
	CUgraphExec x;
	int status;
	unsigned long long id;

	OK(cuStreamIsCapturing(s, &status));
	HOLDS(status == CU_STREAM_CAPTURE_STATUS_NONE);
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cuStreamIsCapturing(s, &status));
	HOLDS(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
	launch_add(s, a, 11);
	OK(cuMemsetD32Async(a + 4, 7, 1, s));
	OK(cuMemcpyDtoDAsync(a + 8, a, 4, s));
	OK(cuStreamGetCaptureInfo(s, &status, &id, &g, NULL, NULL));
	HOLDS(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && id != 0 && count_nodes(g) == 3);
	OK(cuStreamEndCapture(s, &g));
	get_words(words);
	puts(words[0] == 0 && words[1] == 0 && words[2] == 0 ? "captured: nothing happened" : "captured and done");
	OK(cuGraphInstantiate(&x, g, 0));
	OK(cuGraphDestroy(g));
	for (int i = 0; i < 3; ++i)
		OK(cuGraphLaunch(x, s));
	OK(cuStreamSynchronize(s));
	get_words(words);
	printf("launched 3 times: %u %u %u\n", words[0], words[1], words[2]);
	OK(cuGraphExecDestroy(x));
}

/* s forks to t and joins t: the launch there and the copy here are side by side. */
static void two_streams(CUstream s, CUstream t, unsigned int *words)
{
	CUevent fork, join;
	const CUgraphNode *deps;
	CUgraphNode *all;
	CUgraph g, same;
	CUgraphExec x;
	size_t n;
	int status, type;

	OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
	OK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	launch_add(s, a, 11);
	OK(cuEventRecord(fork, s));
	OK(cuStreamWaitEvent(t, fork, 0));
	OK(cuStreamIsCapturing(t, &status));
	HOLDS(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
	OK(cuLaunchHostFunc(t, count_call, &called));
	OK(cuEventRecord(join, t));
	OK(cuMemsetD32Async(a + 4, 7, 1, s));
	OK(cuMemsetD32Async(a + 8, 0, 1, s));
	OK(cuStreamWaitEvent(s, join, 0));
	OK(cuStreamGetCaptureInfo(s, &status, NULL, &g, &deps, &n));
	HOLDS(n == 2 && deps[0] != deps[1]);
	OK(cuGraphNodeGetType(deps[1], &type));
	HOLDS(type == CU_GRAPH_NODE_TYPE_HOST);
	OK(cuMemcpyDtoDAsync(a + 8, a, 4, s));
	OK(cuStreamEndCapture(s, &same));
	HOLDS(same == g);
	OK(cuStreamIsCapturing(t, &status));
	HOLDS(status == CU_STREAM_CAPTURE_STATUS_NONE);
	printf("over two streams: %zu nodes, %zu edges\n", count_nodes(g), count_edges(g));
	/* The capture of the record is over; recorded again the event is like any other. */
	WANT(CUDA_ERROR_INVALID_VALUE, cuEventQuery(join));
	OK(cuEventRecord(join, t));
	OK(cuEventSynchronize(join));
	OK(cuGraphInstantiate(&x, g, 0));
	OK(cuGraphLaunch(x, t));
	OK(cuStreamSynchronize(t));
	get_words(words);
	printf("%u %u %u called %d\n", words[0], words[1], words[2], called);

	n = count_nodes(g);
	all = calloc(n, sizeof(*all));
	OK(cuGraphGetNodes(g, all, &n));
	for (size_t i = 0; i < n; ++i) {
		CUDA_KERNEL_NODE_PARAMS p;

		OK(cuGraphNodeGetType(all[i], &type));
		if (type != CU_GRAPH_NODE_TYPE_KERNEL)
			continue;
		OK(cuGraphKernelNodeGetParams(all[i], &p));
		HOLDS(p.func == add && *(CUdeviceptr *)p.kernelParams[0] == a && *(unsigned int *)p.kernelParams[1] == 11);
	}
	free(all);
	OK(cuGraphExecDestroy(x));
	OK(cuGraphDestroy(g));
}

/* Into a graph that has a node, and with a node that the program adds in the middle. */
static void into_a_graph(CUstream s)
{
	CUgraph g, same;
	CUgraphNode first, middle;
	const CUgraphNode *deps;
	size_t n, k = 8;
	CUgraphNode found[8];
	int status;

	OK(cuGraphCreate(&g, 0));
	OK(cuGraphAddEmptyNode(&first, g, NULL, 0));
	OK(cuStreamBeginCaptureToGraph(s, g, &first, NULL, 1, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuStreamGetCaptureInfo(s, &status, NULL, &same, &deps, &n));
	HOLDS(same == g && n == 1 && deps[0] == first);
	OK(cuGraphAddEmptyNode(&middle, g, deps, n));
	OK(cuStreamUpdateCaptureDependencies(s, &middle, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
	launch_add(s, a, 1);
	OK(cuStreamEndCapture(s, &same));
	OK(cuGraphNodeGetDependentNodes(middle, found, &k));
	HOLDS(k == 1);
	printf("into a graph: %zu nodes\n", count_nodes(g));
	OK(cuGraphDestroy(g));
}

static void *capture_in_thread(void *user)
{
	CUgraph *g = user;

	OK(cuCtxSetCurrent(*(CUcontext *)(g + 1)));
	OK(cuStreamBeginCapture(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	launch_add(CU_STREAM_PER_THREAD, a, 1);
	launch_add(CU_STREAM_PER_THREAD, a, 1);
	OK(cuStreamEndCapture(CU_STREAM_PER_THREAD, g));
	return (NULL);
}

int main(void)
{
	struct {
		CUgraph graph;
		CUcontext ctx;
	} theirs = { NULL, open_context() };
	CUmodule module;
	CUstream s, t;
	CUgraph g;
	CUdeviceptr b;
	unsigned int words[3];
	pthread_t thread;
	int status;

	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&add, module, "add"));
	OK(cuMemAlloc(&a, 12));
	OK(cuMemsetD8(a, 0, 12));
	OK(cuStreamCreate(&s, CU_STREAM_DEFAULT));
	OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
	one_stream(s, words);
	two_streams(s, t, words);
	into_a_graph(s);

	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	OK(pthread_create(&thread, NULL, capture_in_thread, &theirs));
	OK(pthread_join(thread, NULL));
	OK(cuStreamIsCapturing(CU_STREAM_PER_THREAD, &status));
	HOLDS(status == CU_STREAM_CAPTURE_STATUS_NONE);
	printf("by a thread of its own: %zu nodes\n", count_nodes(theirs.graph));
	OK(cuStreamEndCapture(s, &g));
	HOLDS(count_nodes(g) == 0);
	OK(cuMemAlloc(&b, 4));
	return (0);
}
