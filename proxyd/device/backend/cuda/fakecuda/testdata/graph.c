// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "fake.h"

struct CUgraphNode_s {
	struct op op;
	CUgraphNode next;
};

/* Nodes in the order in which they were added, which dependencies allow. */
struct CUgraph_s {
	CUgraphNode first, *last;
};

struct CUgraphExec_s {
	CUcontext ctx;
	CUgraphNode first;
};

CUresult cuGraphCreate(CUgraph *graph, unsigned int flags)
{
	CALL(" flags %u", flags);
	*graph = calloc(1, sizeof(**graph));
	(*graph)->last = &(*graph)->first;
	return (OK);
}

static void end_nodes(CUgraphNode n)
{
	while (n) {
		CUgraphNode next = n->next;

		free(n);
		n = next;
	}
}

CUresult cuGraphDestroy(CUgraph graph)
{
	ENDING("");
	end_nodes(graph->first);
	free(graph);
	return (told);
}

static struct op *add_node(CUgraphNode *node, CUgraph g, int (*run)(struct op *, CUcontext))
{
	CUgraphNode n = calloc(1, sizeof(*n));

	n->op.run = run;
	*g->last = n;
	g->last = &n->next;
	*node = n;
	return (&n->op);
}

/* The public layout, as in programs. The first version ends before kernel. */
struct kernel_params {
	CUfunction function;
	unsigned int grid[3], block[3], shared;
	void **params, **extra, *kernel;
	CUcontext ctx;
};

static CUresult add_kernel(CUgraphNode *node, CUgraph graph, const struct kernel_params *p)
{
	struct op *o = add_node(node, graph, run_launch);

	o->function = p->function;
	memcpy(o->grid, p->grid, sizeof(o->grid));
	memcpy(o->block, p->block, sizeof(o->block));
	for (int i = 0; i < p->function->n; ++i)
		memcpy(o->params + p->function->offsets[i], p->params[i], p->function->sizes[i]);
	return (OK);
}

CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, void *params)
{
	const struct kernel_params *p = params;

	(void)deps;
	CALL(" %s behind %zu", p->function->name, n);
	return (add_kernel(node, graph, p));
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, void *params)
{
	const struct kernel_params *p = params;

	(void)deps;
	CALL(" %s behind %zu", p->function->name, n);
	return (p->kernel || p->ctx ? INVALID_VALUE : add_kernel(node, graph, p));
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, int id, const CUlaunchAttributeValue *value)
{
	CALL(" %s %d=%llx:%llx", node->op.function->name, id, (unsigned long long)value->word[0], (unsigned long long)value->word[1]);
	return (OK);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, const CUDA_MEMCPY3D *copy, CUcontext ctx)
{
	(void)deps;
	CALL(" behind %zu, context %d", n, ctx->id);
	add_node(node, graph, run_copy)->copy = *copy;
	return (OK);
}

CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, const CUDA_MEMSET_NODE_PARAMS *params, CUcontext ctx)
{
	(void)deps;
	CALL(" behind %zu, context %d", n, ctx->id);
	add_node(node, graph, run_fill)->fill = *params;
	return (OK);
}

static int run_empty(struct op *o, CUcontext c)
{
	(void)o;
	(void)c;
	return (0);
}

CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n)
{
	(void)deps;
	CALL(" behind %zu", n);
	add_node(node, graph, run_empty);
	return (OK);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	CUgraphExec x;
	CUgraphNode *last;

	CALL(" flags %llu", flags);
	CONTEXT(c);
	x = fake_count(calloc(1, sizeof(*x)), EXECS, 1);
	x->ctx = c;
	last = &x->first;
	for (CUgraphNode n = graph->first; n; n = n->next) {
		*last = malloc(sizeof(**last));
		**last = *n;
		(*last)->next = NULL;
		last = &(*last)->next;
	}
	__atomic_add_fetch(&c->execs, 1, __ATOMIC_SEQ_CST);
	*exec = x;
	return (OK);
}

static int run_all(struct op *o, CUcontext c)
{
	int fault = 0;

	for (CUgraphNode n = ((CUgraphExec)o->more)->first; n && !fault; n = n->next)
		fault = n->op.run(&n->op, c);
	return (fault);
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	struct op *o;

	CALL(" in stream %d", stream->id);
	CONTEXT(c);
	(void)c;
	o = new_op(run_all);
	o->more = exec;
	push(stream, o);
	return (OK);
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
	ENDING("");
	__atomic_sub_fetch(&exec->ctx->execs, 1, __ATOMIC_SEQ_CST);
	end_nodes(exec->first);
	free(fake_count(exec, EXECS, -1));
	return (told);
}
