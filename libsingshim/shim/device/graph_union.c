// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Nodes of any kind, by a single struct. */
#include "context.h"
#include "graph.h"
#include "refusal.h"

#include <stdbool.h>

/* CUDA_CONDITIONAL_NODE_PARAMS. The driver returns the graphs in bodies. */
struct conditional_params {
	CUgraphConditionalHandle handle;
	int kind;
	unsigned int size;
	CUgraph *bodies;
	CUcontext context;
};
_Static_assert(sizeof(struct conditional_params) == 32, "as the driver has it");

/* CUgraphNodeParams. */
struct node_params {
	int type, reserved[3];
	union {
		long long room[29];
		struct sing_kernel_params kernel;
		struct {
			int flags, reserved;
			CUcontext context;
			CUDA_MEMCPY3D copy;
		} memcpy;
		struct {
			CUDA_MEMSET_NODE_PARAMS set;
			CUcontext context;
		} memset;
		struct sing_host_params host;
		CUgraph child;
		CUevent event;
		struct sing_alloc_params alloc;
		CUdeviceptr freed;
		struct conditional_params conditional;
	};
	long long reserved2;
};
_Static_assert(sizeof(struct node_params) == 256 && offsetof(struct node_params, room) == 16, "as the driver has it");

/* Reserved members must be zero, because a later release may give them a meaning. */
static bool is_known(const struct node_params *p)
{
	return p->reserved[0] == 0 && p->reserved[1] == 0 && p->reserved[2] == 0 && p->reserved2 == 0;
}

enum { BODIES = 1 << 10 }; /* more than any program's */

static CUresult add_conditional(const struct sing_graph_place *to, struct conditional_params *p)
{
	CUgraph *bodies;
	CUresult r;

	if (p->size == 0 || p->size > BODIES)
		return CUDA_ERROR_INVALID_VALUE;
	r = sing_send_graph_add_conditional(0, to->made, to->graph, to->deps, to->n, p->handle, p->context, p->kind, p->size);
	if (r != CUDA_SUCCESS)
		return r;
	bodies = sing_graph_keep(*to->made, p->size * sizeof(*bodies));
	if (bodies == NULL)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned int i = 0; i < p->size && r == CUDA_SUCCESS; ++i)
		r = sing_send_graph_body(0, &bodies[i], *to->made, i);
	if (r != CUDA_SUCCESS)
		sing_send_cuGraphDestroyNode(0, *to->made);
	else
		p->bodies = bodies;
	return r;
}

static CUresult add_node(const struct sing_graph_place *to, struct node_params *p)
{
	switch (p->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return sing_graph_kernel(to, &p->kernel);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		if (p->memcpy.flags != 0)
			return CUDA_ERROR_INVALID_VALUE;
		return sing_send_cuGraphAddMemcpyNode(0, to->made, to->graph, to->deps, to->n, &p->memcpy.copy, p->memcpy.context);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return sing_send_cuGraphAddMemsetNode(0, to->made, to->graph, to->deps, to->n, &p->memset.set, p->memset.context);
	case CU_GRAPH_NODE_TYPE_HOST:
		return sing_graph_host(to, &p->host);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return sing_send_cuGraphAddChildGraphNode(0, to->made, to->graph, to->deps, to->n, p->child);
	case CU_GRAPH_NODE_TYPE_EMPTY:
		return sing_send_cuGraphAddEmptyNode(0, to->made, to->graph, to->deps, to->n);
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return sing_send_cuGraphAddEventWaitNode(0, to->made, to->graph, to->deps, to->n, p->event);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return sing_send_cuGraphAddEventRecordNode(0, to->made, to->graph, to->deps, to->n, p->event);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return sing_graph_alloc(to, &p->alloc);
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return sing_send_cuGraphAddMemFreeNode(0, to->made, to->graph, to->deps, to->n, p->freed);
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return add_conditional(to, &p->conditional);
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult sing_cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *edges, size_t n,
				void *params)
{
	const struct sing_graph_place to = { .made = node, .graph = graph, .deps = deps, .n = n };
	CUresult r;

	if (node == NULL || params == NULL || !is_known(params))
		return CUDA_ERROR_INVALID_VALUE;
	r = sing_graph_edges(edges, n);
	return r == CUDA_SUCCESS ? add_node(&to, params) : r;
}
SING_PUBLIC(cuGraphAddNode_v2);

CUresult sing_cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, void *params)
{
	return sing_cuGraphAddNode_v2(node, graph, deps, NULL, n, params);
}
SING_PUBLIC(cuGraphAddNode);

CUresult sing_cuGraphConditionalHandleCreate(CUgraphConditionalHandle *handle, CUgraph graph, CUcontext context, unsigned int value,
					     unsigned int flags)
{
	CUresult r;

	if (handle == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (context == NULL) {
		r = sing_context_check();
		if (r != CUDA_SUCCESS)
			return r;
		context = (CUcontext)(uintptr_t)sing_current->handle;
	}
	r = sing_send_graph_condition(0, handle, graph, context, value, flags);
	if (r == CUDA_ERROR_NOT_SUPPORTED)
		return SING_REFUSE("cuGraphConditionalHandleCreate", "graphs on these devices have no conditional nodes");
	return r;
}
SING_PUBLIC(cuGraphConditionalHandleCreate);

CUresult sing_cuGraphNodeSetParams(CUgraphNode node, void *params)
{
	const struct sing_graph_place to = { .node = node };
	struct node_params *const p = params;

	if (p == NULL || !is_known(p))
		return CUDA_ERROR_INVALID_VALUE;
	switch (p->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return sing_graph_kernel(&to, &p->kernel);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return sing_send_cuGraphMemcpyNodeSetParams(0, node, &p->memcpy.copy);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return sing_send_cuGraphMemsetNodeSetParams(0, node, &p->memset.set);
	case CU_GRAPH_NODE_TYPE_HOST:
		return sing_graph_host(&to, &p->host);
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return sing_send_cuGraphEventWaitNodeSetEvent(0, node, p->event);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return sing_send_cuGraphEventRecordNodeSetEvent(0, node, p->event);
	}
	return p->type >= 0 && p->type <= CU_GRAPH_NODE_TYPE_CONDITIONAL ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
}
SING_PUBLIC(cuGraphNodeSetParams);

CUresult sing_cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, void *params)
{
	const struct sing_graph_place to = { .exec = exec, .node = node };
	struct node_params *const p = params;

	if (p == NULL || !is_known(p))
		return CUDA_ERROR_INVALID_VALUE;
	if (exec == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	switch (p->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return sing_graph_kernel(&to, &p->kernel);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return sing_send_cuGraphExecMemcpyNodeSetParams(0, exec, node, &p->memcpy.copy, p->memcpy.context);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return sing_send_cuGraphExecMemsetNodeSetParams(0, exec, node, &p->memset.set, p->memset.context);
	case CU_GRAPH_NODE_TYPE_HOST:
		return sing_graph_host(&to, &p->host);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return sing_cuGraphExecChildGraphNodeSetParams(exec, node, p->child);
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return sing_send_cuGraphExecEventWaitNodeSetEvent(0, exec, node, p->event);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return sing_send_cuGraphExecEventRecordNodeSetEvent(0, exec, node, p->event);
	}
	return p->type >= 0 && p->type <= CU_GRAPH_NODE_TYPE_CONDITIONAL ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
}
SING_PUBLIC(cuGraphExecNodeSetParams);
