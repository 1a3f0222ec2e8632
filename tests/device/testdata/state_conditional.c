// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// software: graphs of real devices have no conditional nodes that are captured

// Graphs with loops, some of which are destroyed once they are instantiated, and some of which get more nodes, are launched
// again and again. The results are printed at the end.
// limit: 60s

#include "check.h"

static const char image[] = PTX(
	".extern .func cudaGraphSetConditional(.param .b64 a, .param .b32 b);\n"
	".visible .entry mix(.param .u64 p, .param .u32 k)\n"
	"{\n"
	".reg .u32 %i, %v, %k; .reg .u64 %p, %o;\n"
	"mov.u32 %i, %tid.x; mul.wide.u32 %o, %i, 4; ld.param.u64 %p, [p]; add.u64 %p, %p, %o;\n"
	"ld.param.u32 %k, [k]; ld.global.u32 %v, [%p]; mad.lo.u32 %v, %v, 22695477, %k; st.global.u32 [%p], %v;\n"
	"ret;\n"
	"}\n"
	".visible .entry down(.param .u64 p, .param .u64 h)\n"
	"{\n"
	".reg .u64 %p, %h; .reg .u32 %v;\n"
	"ld.param.u64 %p, [p]; ld.param.u64 %h, [h]; ld.global.u32 %v, [%p]; sub.u32 %v, %v, 1; st.global.u32 [%p], %v;\n"
	"{ .param .b64 a; .param .b32 b; st.param.b64 [a], %h; st.param.b32 [b], %v; call.uni cudaGraphSetConditional, (a, b); }\n"
	"ret;\n"
	"}\n");

enum { WORDS = 256, ROUNDS = 1600, LAUNCHES = 12, LOOPS = 6 };

struct loop {
	CUgraph graph, body; /* NULL: destroyed */
	CUgraphNode last;
	CUgraphExec exec;
};

static CUfunction mix, down;
static CUdeviceptr words, count;
static CUcontext context;
static CUstream stream;

static CUgraphNode add_kernel(CUgraph g, const CUgraphNode *after, CUfunction f, unsigned int threads, CUdeviceptr p, void *second)
{
	void *params[] = { &p, second };
	CUgraphNodeParams k = { .type = CU_GRAPH_NODE_TYPE_KERNEL };
	CUgraphNode node;

	k.kernel = (CUDA_KERNEL_NODE_PARAMS){
		.func = f, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = threads, .blockDimY = 1, .blockDimZ = 1, .kernelParams = params };
	OK(cuGraphAddNode(&node, g, after, after != NULL, &k));
	return (node);
}

/* A loop that mixes as often as is counted, and one more kernel behind the loop. */
static void make_loop(struct loop *l, unsigned int k)
{
	CUgraphNodeParams c = { .type = CU_GRAPH_NODE_TYPE_CONDITIONAL };
	CUDA_MEMSET_NODE_PARAMS set = { .dst = count, .value = 2 + k % 5, .elementSize = 4, .width = 1, .height = 1 };
	CUgraphConditionalHandle h;
	CUgraphNode node;

	OK(cuGraphCreate(&l->graph, 0));
	OK(cuGraphConditionalHandleCreate(&h, l->graph, context, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
	OK(cuGraphAddMemsetNode(&node, l->graph, NULL, 0, &set, context));
	c.conditional.handle = h;
	c.conditional.type = CU_GRAPH_COND_TYPE_WHILE;
	c.conditional.size = 1;
	OK(cuGraphAddNode(&node, l->graph, &node, 1, &c));
	l->body = c.conditional.phGraph_out[0];
	add_kernel(l->graph, &node, mix, WORDS, words, &k);
	l->last = add_kernel(l->body, NULL, mix, WORDS, words, &k);
	l->last = add_kernel(l->body, &l->last, down, 1, count, &h);
	OK(cuGraphInstantiate(&l->exec, l->graph, 0));
	if (k % 2 == 0) {
		OK(cuGraphDestroy(l->graph));
		l->graph = NULL;
	}
}

/* Another node for a graph that is there still. */
static void grow_loop(struct loop *l, unsigned int k)
{
	CUgraphExec old = l->exec;

	l->last = add_kernel(l->body, &l->last, mix, WORDS, words, &k);
	OK(cuGraphInstantiate(&l->exec, l->graph, 0));
	OK(cuGraphExecDestroy(old));
}

static void end_loop(struct loop *l)
{
	OK(cuGraphExecDestroy(l->exec));
	if (l->graph != NULL)
		OK(cuGraphDestroy(l->graph));
}

static unsigned int hash_words(void)
{
	static unsigned int got[WORDS];
	unsigned int h = 2166136261u;

	OK(cuMemcpyDtoHAsync(got, words, sizeof(got), stream));
	OK(cuStreamSynchronize(stream));
	for (int i = 0; i < WORDS; ++i)
		h = (h ^ got[i]) * 16777619u;
	return (h);
}

int main(void)
{
	struct loop loops[LOOPS];
	CUmodule module;

	context = open_context();
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&mix, module, "mix"));
	OK(cuModuleGetFunction(&down, module, "down"));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc(&words, WORDS * 4));
	OK(cuMemAlloc(&count, 4));
	OK(cuMemsetD32Async(words, 1, WORDS, stream));
	for (unsigned int i = 0; i < LOOPS; ++i)
		make_loop(&loops[i], i);
	for (unsigned int round = 0; round < ROUNDS; ++round) {
		struct loop *const l = &loops[round % LOOPS];

		for (unsigned int i = 0; i < LAUNCHES; ++i)
			OK(cuGraphLaunch(loops[(round + i) % LOOPS].exec, stream));
		if (round % 7 == 6) {
			end_loop(l);
			make_loop(l, round);
		} else if (l->graph != NULL && round % 5 == 4) {
			grow_loop(l, round);
		}
		if (round % 200 == 199)
			printf("%08x\n", hash_words());
	}
	for (unsigned int i = 0; i < LOOPS; ++i)
		end_loop(&loops[i]);
	return (0);
}
