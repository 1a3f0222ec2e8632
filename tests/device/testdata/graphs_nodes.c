// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// expect: nodes: 22 7 22 5
// expect: set: 133 7 133 5
// expect: updated: 1144 7 1144 5
// expect: of any kind: 3 9 9, called 2
// expect: allocated: 6 6
// expect: a picture of 3 nodes

/* Graphs made node by node, changed, updated, cloned and looked at. */
#include "check.h"

#include <string.h>
#include <unistd.h>

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
static CUcontext ctx;
static CUstream s;
static unsigned int words[4], five = 5;
static int called;

static void count_call(void *user)
{
	++*(int *)user;
}

static CUDA_KERNEL_NODE_PARAMS kernel_params(void **params)
{
	return ((CUDA_KERNEL_NODE_PARAMS){
		.func = add, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1, .kernelParams = params });
}

static void launch_and_show(CUgraphExec x, const char *name, int n)
{
	OK(cuGraphLaunch(x, s));
	OK(cuStreamSynchronize(s));
	OK(cuMemcpyDtoH(words, a, sizeof(words)));
	printf("%s:", name);
	for (int i = 0; i < n; ++i)
		printf(" %u", words[i]);
}

static void check_nodes(void)
{
	unsigned int n = 22;
	void *params[] = { &a, &n };
	CUDA_KERNEL_NODE_PARAMS k = kernel_params(params), got;
	CUDA_MEMSET_NODE_PARAMS set = { .dst = a + 4, .value = 7, .elementSize = 4, .width = 1, .height = 1 }, set_got;
	CUDA_MEMCPY3D copy = { .srcType = CU_MEMORYTYPE_DEVICE, .srcDevice = a, .dstType = CU_MEMORYTYPE_DEVICE,
			       .dstDevice = a + 8, .width = 4, .height = 1, .depth = 1 }, copy_got;
	CUDA_MEMCPY3D in = { .srcType = CU_MEMORYTYPE_HOST, .srcHost = &five, .dstType = CU_MEMORYTYPE_DEVICE,
			     .dstDevice = a + 12, .width = 4, .height = 1, .depth = 1 };
	CUgraph g, clone;
	CUgraphNode node[4], found;
	CUgraphExec x;
	CUgraphExecUpdateResultInfo info;

	OK(cuGraphCreate(&g, 0));
	OK(cuGraphAddKernelNode(&node[0], g, NULL, 0, &k));
	OK(cuGraphAddMemsetNode(&node[1], g, &node[0], 1, &set, ctx));
	OK(cuGraphAddMemcpyNode(&node[2], g, node, 2, &copy, ctx));
	OK(cuGraphAddMemcpyNode(&node[3], g, NULL, 0, &in, ctx));
	WANT(CUDA_ERROR_INVALID_VALUE, cuGraphAddEmptyNode(&found, g, (CUgraphNode[]){ node[0], node[0] }, 2));
	k.gridDimX = 0;
	WANT(CUDA_ERROR_INVALID_VALUE, cuGraphAddKernelNode(&found, g, NULL, 0, &k));
	OK(cuGraphInstantiate(&x, g, 0));
	launch_and_show(x, "nodes", 4);
	puts("");

	OK(cuGraphKernelNodeGetParams(node[0], &got));
	HOLDS(got.func == add && got.gridDimX == 1 && *(unsigned int *)got.kernelParams[1] == 22);
	OK(cuGraphMemsetNodeGetParams(node[1], &set_got));
	HOLDS(memcmp(&set, &set_got, sizeof(set)) == 0);
	OK(cuGraphMemcpyNodeGetParams(node[2], &copy_got));
	HOLDS(copy_got.srcDevice == a && copy_got.dstDevice == a + 8 && copy_got.width == 4 && copy_got.height == 1);

	n = 111;
	k.gridDimX = 1;
	OK(cuGraphExecKernelNodeSetParams(x, node[0], &k));
	launch_and_show(x, "set", 4);
	puts("");
	OK(cuGraphKernelNodeGetParams(node[0], &got));
	HOLDS(*(unsigned int *)got.kernelParams[1] == 22);
	n = 1011;
	OK(cuGraphKernelNodeSetParams(node[0], &k));
	OK(cuGraphExecUpdate(x, g, &info));
	HOLDS(info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
	launch_and_show(x, "updated", 4);
	puts("");

	OK(cuGraphClone(&clone, g));
	OK(cuGraphNodeFindInClone(&found, node[0], clone));
	HOLDS(found != node[0]);
	OK(cuGraphKernelNodeGetParams(found, &got));
	HOLDS(*(unsigned int *)got.kernelParams[1] == 1011);
	OK(cuGraphDestroyNode(found));
	WANT(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate(x, clone, &info));
	HOLDS(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
	OK(cuGraphDestroy(clone));
	OK(cuGraphDestroy(g));
	WANT(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(g));
	OK(cuGraphExecDestroy(x));
	OK(cuMemsetD8(a, 0, 16));
	OK(cuCtxSynchronize()); /* s waits for nothing in the default stream */
}

static void any_kind(void)
{
	unsigned int n = 3;
	void *params[] = { &a, &n };
	CUgraphNodeParams k = { .type = CU_GRAPH_NODE_TYPE_KERNEL, .kernel = kernel_params(params) };
	CUgraphNodeParams h = { .type = CU_GRAPH_NODE_TYPE_HOST, .host = { count_call, &called } };
	CUgraphNodeParams set = { .type = CU_GRAPH_NODE_TYPE_MEMSET };
	CUgraphNodeParams child = { .type = CU_GRAPH_NODE_TYPE_GRAPH };
	CUgraphNodeParams odd = { .type = CU_GRAPH_NODE_TYPE_CONDITIONAL };
	CUDA_HOST_NODE_PARAMS host;
	CUgraph g, inner, inside;
	CUgraphNode one, two, host_node, child_node;
	CUgraphExec x;
	size_t count;

	set.memset.dst = a + 4;
	set.memset.value = 9;
	set.memset.elementSize = 4;
	set.memset.width = 2;
	set.memset.height = 1;
	set.memset.ctx = ctx;
	OK(cuGraphCreate(&inner, 0));
	OK(cuGraphAddNode(&one, inner, NULL, 0, &set));
	OK(cuGraphAddNode(&host_node, inner, NULL, 0, &h));
	OK(cuGraphCreate(&g, 0));
	OK(cuGraphAddNode(&two, g, NULL, 0, &k));
	child.graph.graph = inner;
	OK(cuGraphAddNode(&child_node, g, &two, 1, &child));
	OK(cuGraphAddNode(&one, g, NULL, 0, &h));
	WANT(CUDA_ERROR_INVALID_VALUE, cuGraphAddNode(&one, g, NULL, 0, &odd)); /* without a handle */
	odd.type = 99;
	WANT(CUDA_ERROR_INVALID_VALUE, cuGraphAddNode(&one, g, NULL, 0, &odd));
	OK(cuGraphHostNodeGetParams(host_node, &host));
	HOLDS(host.fn == count_call && host.userData == &called);
	OK(cuGraphChildGraphNodeGetGraph(child_node, &inside));
	HOLDS(inside != inner);
	OK(cuGraphGetNodes(inside, NULL, &count));
	HOLDS(count == 2);
	OK(cuGraphInstantiate(&x, g, 0));
	launch_and_show(x, "of any kind", 3);
	printf(", called %d\n", called);
	OK(cuGraphExecDestroy(x));
	OK(cuGraphDestroy(g));
	OK(cuGraphDestroy(inner));
}

static void check_memory(void)
{
	CUgraph g;
	CUgraphExec x;
	CUdeviceptr m;
	CUgraphNode node, picture[3];
	size_t n = 3;
	FILE *f;
	char text[4096] = "";
	char path[] = "/tmp/graphXXXXXX";
	const int fd = mkstemp(path);

	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cuMemAllocAsync(&m, 4096, s));
	OK(cuMemsetD32Async(m, 6, 2, s));
	OK(cuMemcpyDtoDAsync(a, m, 8, s));
	OK(cuStreamEndCapture(s, &g));
	OK(cuGraphGetNodes(g, picture, &n));
	HOLDS(n == 3);
	OK(cuGraphInstantiate(&x, g, 0));
	launch_and_show(x, "allocated", 2);
	puts("");
	OK(cuMemFree(m));
	OK(cuGraphDebugDotPrint(g, path, 0));
	f = fdopen(fd, "r");
	HOLDS(f != NULL && fread(text, 1, sizeof(text) - 1, f) > 0);
	HOLDS(strstr(text, "MEM_ALLOC") != NULL && strstr(text, "MEMSET") != NULL && strstr(text, "MEMCPY") != NULL);
	printf("a picture of %zu nodes\n", n);
	fclose(f);
	unlink(path);
	WANT(CUDA_ERROR_NOT_SUPPORTED, cuGraphDestroyNode(picture[0]));
	OK(cuGraphAddMemFreeNode(&node, g, &picture[2], 1, m));
	OK(cuGraphExecDestroy(x));
	OK(cuGraphInstantiate(&x, g, 0));
	OK(cuGraphLaunch(x, s));
	OK(cuGraphLaunch(x, s));
	OK(cuStreamSynchronize(s));
}

int main(void)
{
	CUmodule module;

	ctx = open_context();
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&add, module, "add"));
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc(&a, 16));
	OK(cuMemsetD8(a, 0, 16));
	OK(cuCtxSynchronize()); /* s waits for nothing in the default stream */
	check_nodes();
	any_kind();
	check_memory();
	return (0);
}
