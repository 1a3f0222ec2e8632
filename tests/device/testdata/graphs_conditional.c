// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// expect: if: 0 1 0
// expect: else: 10 1
// expect: switch: 1 10 100 0
// expect: while: 7, of two launches 12
// expect: nested: 12
// expect: captured: 5
// software: graphs of real devices have no conditional nodes that are captured

/* Graphs with nodes that run a graph by a condition. */
#include "check.h"

static const char image[] = PTX(
	".extern .func cudaGraphSetConditional(.param .b64 a, .param .b32 b);\n"
	/* sets the condition to the word */
	".visible .entry choose(.param .u64 p, .param .u64 h)\n"
	"{\n"
	".reg .u64 %p, %h; .reg .u32 %v;\n"
	"ld.param.u64 %p, [p]; ld.param.u64 %h, [h]; ld.global.u32 %v, [%p];\n"
	"{ .param .b64 a; .param .b32 b; st.param.b64 [a], %h; st.param.b32 [b], %v; call.uni cudaGraphSetConditional, (a, b); }\n"
	"ret;\n"
	"}\n"
	/* counts the word down, and sets the condition to the rest */
	".visible .entry down(.param .u64 p, .param .u64 h)\n"
	"{\n"
	".reg .u64 %p, %h; .reg .u32 %v;\n"
	"ld.param.u64 %p, [p]; ld.param.u64 %h, [h]; ld.global.u32 %v, [%p]; sub.u32 %v, %v, 1; st.global.u32 [%p], %v;\n"
	"{ .param .b64 a; .param .b32 b; st.param.b64 [a], %h; st.param.b32 [b], %v; call.uni cudaGraphSetConditional, (a, b); }\n"
	"ret;\n"
	"}\n"
	".visible .entry add(.param .u64 p, .param .u32 n)\n"
	"{\n"
	".reg .u64 %p; .reg .u32 %v, %n;\n"
	"ld.param.u64 %p, [p]; ld.param.u32 %n, [n]; ld.global.u32 %v, [%p]; add.u32 %v, %v, %n; st.global.u32 [%p], %v;\n"
	"ret;\n"
	"}\n");

static CUfunction choose, down, add;
static CUdeviceptr input, sum;
static CUcontext context;
static CUstream stream;

static CUgraphNode add_kernel(CUgraph g, const CUgraphNode *after, CUfunction f, CUdeviceptr p, void *second)
{
	void *params[] = { &p, second };
	CUgraphNodeParams k = { .type = CU_GRAPH_NODE_TYPE_KERNEL };
	CUgraphNode node;

	k.kernel = (CUDA_KERNEL_NODE_PARAMS){
		.func = f, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1, .kernelParams = params };
	OK(cuGraphAddNode(&node, g, after, after != NULL, &k));
	return (node);
}

static CUgraphNode add_to_sum(CUgraph g, const CUgraphNode *after, unsigned int n)
{
	return (add_kernel(g, after, add, sum, &n));
}

static CUgraph *add_conditional(CUgraph g, const CUgraphNode *after, CUgraphConditionalHandle h, int type, unsigned int size, CUgraphNode *node)
{
	CUgraphNodeParams c = { .type = CU_GRAPH_NODE_TYPE_CONDITIONAL };

	c.conditional.handle = h;
	c.conditional.type = type;
	c.conditional.size = size;
	c.conditional.ctx = context;
	OK(cuGraphAddNode(node, g, after, after != NULL, &c));
	return (c.conditional.phGraph_out);
}

static unsigned int launch_with(CUgraphExec x, unsigned int with)
{
	unsigned int got;

	OK(cuMemsetD32Async(input, with, 1, stream));
	OK(cuMemsetD32Async(sum, 0, 1, stream));
	OK(cuGraphLaunch(x, stream));
	OK(cuMemcpyDtoHAsync(&got, sum, sizeof(got), stream));
	OK(cuStreamSynchronize(stream));
	return (got);
}

/* A graph that chooses by the input; the i-th graph adds 10 to the power of i. */
static CUgraphExec make_choice(int type, unsigned int size)
{
	CUgraphConditionalHandle h;
	CUgraphNode first, node;
	CUgraphExec x;
	CUgraph g, *bodies;
	int got;

	OK(cuGraphCreate(&g, 0));
	OK(cuGraphConditionalHandleCreate(&h, g, context, 0, 0));
	first = add_kernel(g, NULL, choose, input, &h);
	bodies = add_conditional(g, &first, h, type, size, &node);
	for (unsigned int i = 0, n = 1; i < size; ++i, n *= 10)
		add_to_sum(bodies[i], NULL, n);
	OK(cuGraphNodeGetType(node, &got));
	HOLDS(got == CU_GRAPH_NODE_TYPE_CONDITIONAL);
	OK(cuGraphInstantiate(&x, g, 0));
	OK(cuGraphDestroy(g));
	return (x);
}

/* A loop that adds n until the input is counted down. */
static CUgraph make_loop(CUgraphConditionalHandle *h, unsigned int n)
{
	CUgraphNode node;
	CUgraph g, *body;

	OK(cuGraphCreate(&g, 0));
	OK(cuGraphConditionalHandleCreate(h, g, context, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
	body = add_conditional(g, NULL, *h, CU_GRAPH_COND_TYPE_WHILE, 1, &node);
	node = add_to_sum(body[0], NULL, n);
	add_kernel(body[0], &node, down, input, h);
	return (g);
}

static void check_loops(void)
{
	CUgraphConditionalHandle h;
	CUgraphExec x;
	CUgraph g = make_loop(&h, 1);
	unsigned int first;

	OK(cuGraphInstantiate(&x, g, 0));
	printf("while: %u", launch_with(x, 7));
	first = launch_with(x, 5);
	printf(", of two launches %u\n", first + launch_with(x, 7));
	OK(cuGraphExecDestroy(x));
	OK(cuGraphDestroy(g));
}

/* Three times: the graph that the input chooses counts another word down from 6. There is none for 3. */
static void check_nested(void)
{
	CUgraphConditionalHandle outer, inner, odd;
	CUgraphNode node, set, last;
	CUgraphExec x;
	CUdeviceptr other;
	CUgraph g, *body, *branch, *loop;
	CUDA_MEMSET_NODE_PARAMS six = { .value = 6, .elementSize = 4, .width = 1, .height = 1 };

	OK(cuMemAlloc(&other, 4));
	six.dst = other;
	OK(cuGraphCreate(&g, 0));
	OK(cuGraphConditionalHandleCreate(&outer, g, context, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
	body = add_conditional(g, NULL, outer, CU_GRAPH_COND_TYPE_WHILE, 1, &node);
	OK(cuGraphConditionalHandleCreate(&odd, body[0], context, 0, 0));
	OK(cuGraphAddMemsetNode(&set, body[0], NULL, 0, &six, context));
	node = add_kernel(body[0], &set, choose, input, &odd);
	branch = add_conditional(body[0], &node, odd, CU_GRAPH_COND_TYPE_SWITCH, 3, &last);
	for (int i = 1; i < 3; ++i) {
		OK(cuGraphConditionalHandleCreate(&inner, branch[i], context, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
		loop = add_conditional(branch[i], NULL, inner, CU_GRAPH_COND_TYPE_WHILE, 1, &node);
		node = add_to_sum(loop[0], NULL, 1);
		add_kernel(loop[0], &node, down, other, &inner);
	}
	add_kernel(body[0], &last, down, input, &outer);
	OK(cuGraphInstantiate(&x, g, 0));
	printf("nested: %u\n", launch_with(x, 3));
	OK(cuGraphExecDestroy(x));
	OK(cuGraphDestroy(g));
	OK(cuMemFree(other));
}

/* A conditional node in a capture. Its graph is captured, too. */
static void check_captured(void)
{
	CUgraphConditionalHandle h;
	CUstreamCaptureStatus status;
	const CUgraphNode *deps;
	CUgraphNode node;
	CUgraphExec x;
	CUgraph g, whole, *body;
	size_t n;
	CUstream s;
	unsigned int one = 1;
	void *choice[] = { &input, &h }, *count[] = { &input, &h }, *addition[] = { &sum, &one };

	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuStreamGetCaptureInfo(s, &status, NULL, &g, &deps, &n));
	OK(cuGraphConditionalHandleCreate(&h, g, context, 0, 0));
	OK(cuLaunchKernel(choose, 1, 1, 1, 1, 1, 1, 0, s, choice, NULL));
	OK(cuStreamGetCaptureInfo(s, &status, NULL, &g, &deps, &n));
	HOLDS(n == 1);
	body = add_conditional(g, deps, h, CU_GRAPH_COND_TYPE_WHILE, 1, &node);
	OK(cuStreamUpdateCaptureDependencies(s, &node, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
	WANT(CUDA_ERROR_INVALID_VALUE, cuStreamEndCapture(s, NULL));
	OK(cuStreamEndCapture(s, &whole));
	HOLDS(whole == g);
	OK(cuStreamBeginCaptureToGraph(s, body[0], NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, s, addition, NULL));
	OK(cuLaunchKernel(down, 1, 1, 1, 1, 1, 1, 0, s, count, NULL));
	OK(cuStreamEndCapture(s, NULL)); /* the program has the graph */
	OK(cuGraphInstantiate(&x, whole, 0));
	printf("captured: %u\n", launch_with(x, 5));
	OK(cuGraphExecDestroy(x));
	OK(cuGraphDestroy(whole));
	OK(cuStreamDestroy(s));
}

static void check_refusals(void)
{
	CUgraphConditionalHandle h, loop;
	CUgraphNodeParams c = { .type = CU_GRAPH_NODE_TYPE_CONDITIONAL };
	CUgraphExecUpdateResultInfo info;
	CUgraph g, other, clone, *bodies;
	CUgraphNode node;
	CUgraphExec x;
	CUevent event;

	OK(cuGraphCreate(&g, 0));
	WANT(CUDA_ERROR_INVALID_VALUE, cuGraphConditionalHandleCreate(&h, g, context, 0, 2));
	OK(cuGraphConditionalHandleCreate(&h, g, NULL, 0, 0));
	WANT(CUDA_ERROR_NOT_SUPPORTED, cuGraphInstantiate(&x, g, 0)); /* a handle without a node */
	c.conditional.handle = h;
	c.conditional.type = CU_GRAPH_COND_TYPE_WHILE;
	WANT(CUDA_ERROR_INVALID_VALUE, cuGraphAddNode(&node, g, NULL, 0, &c)); /* without a graph */
	c.conditional.size = 2;
	WANT(CUDA_ERROR_INVALID_VALUE, cuGraphAddNode(&node, g, NULL, 0, &c));
	c.conditional.type = 3;
	WANT(CUDA_ERROR_INVALID_VALUE, cuGraphAddNode(&node, g, NULL, 0, &c));
	bodies = add_conditional(g, NULL, h, CU_GRAPH_COND_TYPE_IF, 1, &node);
	c.conditional.type = CU_GRAPH_COND_TYPE_IF;
	WANT(CUDA_ERROR_INVALID_VALUE, cuGraphAddNode(&node, g, NULL, 0, &c)); /* a second node */
	WANT(CUDA_ERROR_NOT_SUPPORTED, cuGraphClone(&clone, g));
	OK(cuGraphCreate(&other, 0));
	WANT(CUDA_ERROR_NOT_SUPPORTED, cuGraphAddChildGraphNode(&node, other, NULL, 0, g));
	WANT(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(bodies[0]));
	WANT(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiate(&x, bodies[0], 0));
	OK(cuGraphInstantiate(&x, g, 0));
	WANT(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate(x, g, &info));
	OK(cuGraphExecDestroy(x));
	OK(cuEventCreate(&event, 0));
	OK(cuGraphAddEventRecordNode(&node, bodies[0], NULL, 0, event));
	WANT(CUDA_ERROR_NOT_SUPPORTED, cuGraphInstantiate(&x, g, 0)); /* nodes that a conditional node may not run */
	OK(cuGraphDestroy(other));
	OK(cuGraphDestroy(g));
	g = make_loop(&loop, 1);
	OK(cuGraphDestroy(g));
	WANT(CUDA_ERROR_INVALID_VALUE, cuGraphAddNode(&node, g, NULL, 0, &c));
}

int main(void)
{
	CUmodule module;
	CUgraphExec x;

	context = open_context();
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&choose, module, "choose"));
	OK(cuModuleGetFunction(&down, module, "down"));
	OK(cuModuleGetFunction(&add, module, "add"));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc(&input, 4));
	OK(cuMemAlloc(&sum, 4));
	x = make_choice(CU_GRAPH_COND_TYPE_IF, 1);
	printf("if: %u", launch_with(x, 0));
	printf(" %u", launch_with(x, 3));
	printf(" %u\n", launch_with(x, 0));
	x = make_choice(CU_GRAPH_COND_TYPE_IF, 2);
	printf("else: %u", launch_with(x, 0));
	printf(" %u\n", launch_with(x, 3));
	x = make_choice(CU_GRAPH_COND_TYPE_SWITCH, 3);
	printf("switch: %u", launch_with(x, 0));
	printf(" %u", launch_with(x, 1));
	printf(" %u", launch_with(x, 2));
	printf(" %u\n", launch_with(x, 3));
	check_loops();
	check_nested();
	check_captured();
	check_refusals();
	return (0);
}
