// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Kernel nodes. */
#include "context.h"
#include "function.h"
#include "graph.h"

#include <stdlib.h>
#include <string.h>

/*
 * The facts of the kernel that the parameters name, in the context that they name, or else in the
 * current context.
 */
static CUresult find_kernel(const struct sing_kernel_params *p, struct sing_function **f)
{
	struct sing_context *const current = sing_current;
	const CUfunction function = p->function != NULL ? p->function : (CUfunction)p->kernel;
	CUresult r;

	if (function == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (p->context != NULL) {
		sing_current = sing_context_find((uint64_t)(uintptr_t)p->context);
		if (sing_current == NULL) {
			sing_current = current;
			return CUDA_ERROR_INVALID_CONTEXT;
		}
	}
	r = sing_function_know(function, f);
	sing_current = current;
	return r;
}

static CUresult send_kernel(const struct sing_graph_place *to, const struct sing_kernel_params *p, const struct sing_function *f,
			    const unsigned char *block)
{
	const unsigned int *const g = p->grid, *const b = p->block;
	const unsigned int n = f->facts.bytes;

	if (to->made != NULL)
		return sing_send_graph_add_kernel(0, to->made, to->graph, to->deps, to->n, f->function, p->kernel, f->facts.context, g[0],
						  g[1], g[2], b[0], b[1], b[2], p->shared, block, n);
	if (to->exec != NULL)
		return sing_send_graph_exec_kernel(0, to->exec, to->node, f->function, p->kernel, f->facts.context, g[0], g[1], g[2], b[0],
						   b[1], b[2], p->shared, block, n);
	return sing_send_graph_set_kernel(0, to->node, f->function, p->kernel, f->facts.context, g[0], g[1], g[2], b[0], b[1], b[2],
					  p->shared, block, n);
}

CUresult sing_graph_kernel(const struct sing_graph_place *to, const struct sing_kernel_params *p)
{
	const struct sing_shape shape = { { p->grid[0], p->grid[1], p->grid[2] }, { p->block[0], p->block[1], p->block[2] }, p->shared, false };
	struct sing_function *f;
	unsigned char *block;
	CUresult r = find_kernel(p, &f);

	if (r == CUDA_SUCCESS)
		r = sing_function_check(f, &shape);
	if (r != CUDA_SUCCESS)
		return r;
	block = malloc(f->facts.bytes + 1);
	if (block == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = sing_function_params(f, p->params, p->extra, block);
	if (r == CUDA_SUCCESS)
		r = send_kernel(to, p, f, block);
	free(block);
	return r;
}

/* The first version has neither kernel nor context. */
static struct sing_kernel_params widen_params(const void *params)
{
	struct sing_kernel_params p = { 0 };

	memcpy(&p, params, offsetof(struct sing_kernel_params, kernel));
	return p;
}

CUresult sing_cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, void *params)
{
	struct sing_kernel_params p;

	if (params == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	p = widen_params(params);
	return sing_cuGraphAddKernelNode_v2(node, graph, deps, n, &p);
}
SING_PUBLIC(cuGraphAddKernelNode);

CUresult sing_cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, void *params)
{
	if (node == NULL || params == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	return sing_graph_kernel(&(struct sing_graph_place){ .made = node, .graph = graph, .deps = deps, .n = n }, params);
}
SING_PUBLIC(cuGraphAddKernelNode_v2);

CUresult sing_cuGraphKernelNodeSetParams(CUgraphNode node, void *params)
{
	struct sing_kernel_params p;

	if (params == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	p = widen_params(params);
	return sing_cuGraphKernelNodeSetParams_v2(node, &p);
}
SING_PUBLIC(cuGraphKernelNodeSetParams);

CUresult sing_cuGraphKernelNodeSetParams_v2(CUgraphNode node, void *params)
{
	if (params == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	return sing_graph_kernel(&(struct sing_graph_place){ .node = node }, params);
}
SING_PUBLIC(cuGraphKernelNodeSetParams_v2);

CUresult sing_cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, void *params)
{
	struct sing_kernel_params p;

	if (params == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	p = widen_params(params);
	return sing_cuGraphExecKernelNodeSetParams_v2(exec, node, &p);
}
SING_PUBLIC(cuGraphExecKernelNodeSetParams);

CUresult sing_cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, void *params)
{
	if (params == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (exec == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	return sing_graph_kernel(&(struct sing_graph_place){ .exec = exec, .node = node }, params);
}
SING_PUBLIC(cuGraphExecKernelNodeSetParams_v2);

/*
 * Give the program the parameters' values, and an array of pointers to them. Both belong to the
 * node.
 */
static CUresult hand_out(CUgraphNode node, struct sing_kernel_params *p, const unsigned char *block, unsigned int n)
{
	struct sing_function *f;
	unsigned char *values;
	CUresult r = find_kernel(p, &f);

	if (r != CUDA_SUCCESS)
		return r;
	p->params = sing_graph_keep(node, (f->params + 1) * sizeof(void *) + n);
	if (p->params == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	values = (unsigned char *)(p->params + f->params + 1);
	memcpy(values, block, n);
	for (uint32_t i = 0; i < f->params; ++i) {
		if (f->param[i].offset > n || f->param[i].size > n - f->param[i].offset)
			return CUDA_ERROR_INVALID_VALUE;
		p->params[i] = values + f->param[i].offset;
	}
	return CUDA_SUCCESS;
}

static CUresult get_params(CUgraphNode node, struct sing_kernel_params *p)
{
	/* No kernel's parameters are longer; a launch with longer parameters would be refused. */
	unsigned char block[1 << 15];
	unsigned int n = sizeof(block), *const g = p->grid, *const b = p->block;
	const CUresult r = sing_send_graph_get_kernel(0, node, &p->function, &p->kernel, &p->context, &g[0], &g[1], &g[2], &b[0], &b[1],
						      &b[2], &p->shared, block, &n);

	p->extra = NULL;
	return r == CUDA_SUCCESS ? hand_out(node, p, block, n) : r;
}

CUresult sing_cuGraphKernelNodeGetParams(CUgraphNode node, void *params)
{
	struct sing_kernel_params p = { 0 };
	CUresult r;

	if (params == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = get_params(node, &p);
	if (r == CUDA_SUCCESS)
		memcpy(params, &p, offsetof(struct sing_kernel_params, kernel));
	return r;
}
SING_PUBLIC(cuGraphKernelNodeGetParams);

CUresult sing_cuGraphKernelNodeGetParams_v2(CUgraphNode node, void *params)
{
	struct sing_kernel_params p = { 0 };
	CUresult r;

	if (params == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = get_params(node, &p);
	if (r == CUDA_SUCCESS)
		memcpy(params, &p, sizeof(p));
	return r;
}
SING_PUBLIC(cuGraphKernelNodeGetParams_v2);
