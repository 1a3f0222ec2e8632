// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Nodes that call functions of the program, and nodes that allocate. */
#include "graph.h"
#include "hostfunc.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct kept {
	struct kept *next;
	CUgraphNode node;
	void *memory;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept *kept[64];

void *sing_graph_keep(CUgraphNode node, size_t n)
{
	struct kept **k = &kept[(uintptr_t)node % (sizeof(kept) / sizeof(kept[0]))];
	void *memory = calloc(1, n);

	if (memory == NULL)
		return NULL;
	pthread_mutex_lock(&lock);
	while (*k != NULL && (*k)->node != node)
		k = &(*k)->next;
	if (*k == NULL && (*k = calloc(1, sizeof(**k))) != NULL)
		(*k)->node = node;
	if (*k != NULL) {
		free((*k)->memory);
		(*k)->memory = memory;
	} else {
		free(memory);
		memory = NULL;
	}
	pthread_mutex_unlock(&lock);
	return memory;
}

CUresult sing_graph_edges(const CUgraphEdgeData *edges, size_t n)
{
	static const CUgraphEdgeData plain;

	for (size_t i = 0; edges != NULL && i < n; ++i)
		if (memcmp(&edges[i], &plain, sizeof(plain)) != 0)
			return CUDA_ERROR_NOT_SUPPORTED;
	return CUDA_SUCCESS;
}

CUresult sing_graph_host(const struct sing_graph_place *to, const struct sing_host_params *p)
{
	/* A function is as wide as a pointer wherever there is CUDA. */
	const struct sing_host_func f = { .call = (void (*)(void *))(uintptr_t)p->function, .user = p->user };
	uint64_t ticket;
	CUresult r;

	if (p->function == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = sing_host_ticket(&f, &ticket);
	if (r != CUDA_SUCCESS)
		return r;
	if (to->made != NULL)
		r = sing_send_graph_add_host(0, to->made, to->graph, to->deps, to->n, ticket);
	else if (to->exec != NULL)
		r = sing_send_graph_exec_host(0, to->exec, to->node, ticket);
	else
		r = sing_send_graph_set_host(0, to->node, ticket);
	if (r != CUDA_SUCCESS)
		sing_host_forget(ticket);
	return r;
}

CUresult sing_cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, void *params)
{
	if (node == NULL || params == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	return sing_graph_host(&(struct sing_graph_place){ .made = node, .graph = graph, .deps = deps, .n = n }, params);
}
SING_PUBLIC(cuGraphAddHostNode);

CUresult sing_cuGraphHostNodeSetParams(CUgraphNode node, void *params)
{
	if (params == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	return sing_graph_host(&(struct sing_graph_place){ .node = node }, params);
}
SING_PUBLIC(cuGraphHostNodeSetParams);

CUresult sing_cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node, void *params)
{
	if (params == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (exec == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	return sing_graph_host(&(struct sing_graph_place){ .exec = exec, .node = node }, params);
}
SING_PUBLIC(cuGraphExecHostNodeSetParams);

CUresult sing_cuGraphHostNodeGetParams(CUgraphNode node, void *params)
{
	struct sing_host_params p = { 0 };
	struct sing_host_func f;
	unsigned long long ticket;
	CUresult r;

	if (params == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = sing_send_graph_get_host(0, node, &ticket);
	if (r != CUDA_SUCCESS)
		return r;
	if (!sing_host_find(ticket, &f))
		return CUDA_ERROR_INVALID_VALUE;
	p.function = (void *)(uintptr_t)f.call;
	p.user = f.user;
	memcpy(params, &p, sizeof(p));
	return CUDA_SUCCESS;
}
SING_PUBLIC(cuGraphHostNodeGetParams);

CUresult sing_graph_alloc(const struct sing_graph_place *to, struct sing_alloc_params *p)
{
	if (to->made == NULL)
		return CUDA_ERROR_NOT_SUPPORTED; /* such nodes are never changed */
	if (p->n > UINT16_MAX || (p->access == NULL && p->n > 0))
		return CUDA_ERROR_INVALID_VALUE;
	return sing_send_graph_add_alloc(0, to->made, to->graph, to->deps, to->n, &p->props, p->access, p->n, p->size, &p->ptr);
}

CUresult sing_cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, void *params)
{
	if (node == NULL || params == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	return sing_graph_alloc(&(struct sing_graph_place){ .made = node, .graph = graph, .deps = deps, .n = n }, params);
}
SING_PUBLIC(cuGraphAddMemAllocNode);

CUresult sing_cuGraphMemAllocNodeGetParams(CUgraphNode node, void *params)
{
	enum { MOST = 64 };
	struct sing_alloc_params p = { 0 };
	CUmemAccessDesc access[MOST], *own;
	CUresult r;

	if (params == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	p.n = MOST;
	r = sing_send_graph_get_alloc(0, node, &p.props, access, &p.n, &p.size, &p.ptr);
	if (r != CUDA_SUCCESS)
		return r;
	if (p.n > 0) {
		own = sing_graph_keep(node, p.n * sizeof(*own));
		if (own == NULL)
			return CUDA_ERROR_OUT_OF_MEMORY;
		memcpy(own, access, p.n * sizeof(*own));
		p.access = own;
	}
	memcpy(params, &p, sizeof(p));
	return CUDA_SUCCESS;
}
SING_PUBLIC(cuGraphMemAllocNodeGetParams);
