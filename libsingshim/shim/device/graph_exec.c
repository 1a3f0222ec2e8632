// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Executable graphs. A graph with collectives is launched as a single operation of the barrier, counted for
 * each communicator of these collectives. The server is asked for the counts of a graph when the graph is made
 * and when the graph changes; they are kept here.
 */
#include "capture.h"
#include "graph.h"
#include "send.h"
#include "transport.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(sing_nccl_count) == sizeof(struct sing_count) && offsetof(sing_nccl_count, n) == offsetof(struct sing_count, n),
	       "one is sent as the other");

struct counted_graph {
	struct counted_graph *next;
	CUgraphExec exec;
	struct sing_count *counts;
	unsigned int n;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct counted_graph *graphs[64]; /* lists, by a hash of the handle */
static _Atomic bool has_graphs;		 /* an entry was ever added to graphs */

static struct counted_graph **find_counted(CUgraphExec exec)
{
	struct counted_graph **c = &graphs[(uintptr_t)exec % (sizeof(graphs) / sizeof(graphs[0]))];

	while (*c != NULL && (*c)->exec != exec)
		c = &(*c)->next;
	return c;
}

static CUresult keep_counts(CUgraphExec exec, struct sing_count *counts, unsigned int n)
{
	struct counted_graph **c;
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&lock);
	c = find_counted(exec);
	if (*c == NULL && n > 0) {
		*c = calloc(1, sizeof(**c));
		atomic_store(&has_graphs, true);
	}
	if (*c != NULL) {
		free((*c)->counts);
		(*c)->exec = exec;
		(*c)->counts = counts;
		(*c)->n = n;
	} else {
		free(counts);
		r = n > 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

/*
 * Ask the server for the keys that launches of a graph are counted for. No question is sent while no message
 * with counts was ever captured: then a graph cannot have collectives.
 */
static CUresult ask_counts(CUgraphExec exec)
{
	struct sing_count *counts;
	unsigned int n = SING_COUNTS_MAX;
	CUresult r;

	if (!sing_captured_counts())
		return CUDA_SUCCESS;
	counts = calloc(n, sizeof(*counts));
	if (counts == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = sing_send_graph_counts(0, exec, (sing_nccl_count *)counts, &n);
	if (r != CUDA_SUCCESS) {
		free(counts);
		return r;
	}
	return keep_counts(exec, counts, n);
}

/* Instantiate a graph. All calls that do so send the same message. */
static CUresult instantiate_graph(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params, char *log, size_t n)
{
	CUgraphExec made;
	CUresult r;

	if (exec == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (n > 1 << 16)
		n = 1 << 16;
	r = sing_send_graph_instantiate(0, &made, graph, params, log, log == NULL ? 0 : (unsigned int)n);
	if (r != CUDA_SUCCESS)
		return r;
	r = ask_counts(made);
	if (r != CUDA_SUCCESS) {
		sing_send_graph_exec_destroy(0, made);
		return r;
	}
	*exec = made;
	return CUDA_SUCCESS;
}

CUresult sing_cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *failed, char *log, size_t n)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS params = { 0 };
	const CUresult r = instantiate_graph(exec, graph, &params, log, n);

	if (failed != NULL)
		*failed = r == CUDA_SUCCESS ? NULL : params.errorNode;
	return r;
}
SING_PUBLIC(cuGraphInstantiate);

CUresult sing_cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *failed, char *log, size_t n)
{
	return sing_cuGraphInstantiate(exec, graph, failed, log, n);
}
SING_PUBLIC(cuGraphInstantiate_v2);

CUresult sing_cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS params = { .flags = flags };

	if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)
		return CUDA_ERROR_INVALID_VALUE; /* the call does not name the stream for the upload */
	return instantiate_graph(exec, graph, &params, NULL, 0);
}
SING_PUBLIC(cuGraphInstantiateWithFlags);

CUresult sing_cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	return params == NULL ? CUDA_ERROR_INVALID_VALUE : instantiate_graph(exec, graph, params, NULL, 0);
}
SING_PUBLIC(cuGraphInstantiateWithParams);

CUresult sing_cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	CUstream stream;
	CUresult r;

	if (params == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	stream = params->uploadStream;
	if (stream == NULL)
		params->uploadStream = (CUstream)2;
	r = instantiate_graph(exec, graph, params, NULL, 0);
	params->uploadStream = stream;
	return r;
}
SING_PUBLIC(cuGraphInstantiateWithParams_ptsz);

/* The first form of cuGraphExecUpdate, which reports less than the second. */
CUresult sing_cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *failed, int *result)
{
	CUgraphExecUpdateResultInfo info = { 0 };
	CUresult r;

	if (result == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = sing_cuGraphExecUpdate_v2(exec, graph, &info);
	*result = info.result;
	if (failed != NULL)
		*failed = info.errorNode;
	return r;
}
SING_PUBLIC(cuGraphExecUpdate);

CUresult sing_cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
	CUresult r;

	if (info == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = sing_send_graph_update(0, exec, graph, info);
	return r == CUDA_SUCCESS ? ask_counts(exec) : r;
}
SING_PUBLIC(cuGraphExecUpdate_v2);

CUresult sing_cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child)
{
	const CUresult r = sing_send_graph_exec_child(0, exec, node, child);

	return r == CUDA_SUCCESS ? ask_counts(exec) : r;
}
SING_PUBLIC(cuGraphExecChildGraphNodeSetParams);

CUresult sing_cuGraphExecDestroy(CUgraphExec exec)
{
	struct counted_graph **c, *gone;
	const CUresult r = sing_send_graph_exec_destroy(0, exec);

	if (r != CUDA_SUCCESS || !atomic_load(&has_graphs))
		return r;
	pthread_mutex_lock(&lock);
	c = find_counted(exec);
	gone = *c;
	if (gone != NULL)
		*c = gone->next;
	pthread_mutex_unlock(&lock);
	if (gone != NULL)
		free(gone->counts);
	free(gone);
	return r;
}
SING_PUBLIC(cuGraphExecDestroy);

/* A copy of the counts of an executable graph; *n is 0 if the graph has no counts. */
static struct sing_count *counts_of(CUgraphExec exec, unsigned int *n)
{
	struct sing_count *counts = NULL;
	const struct counted_graph *c;

	*n = 0;
	pthread_mutex_lock(&lock);
	c = *find_counted(exec);
	if (c != NULL && c->n > 0) {
		*n = c->n;
		counts = malloc(c->n * sizeof(*counts));
		if (counts != NULL)
			memcpy(counts, c->counts, c->n * sizeof(*counts));
	}
	pthread_mutex_unlock(&lock);
	return counts;
}

/*
 * Launch a graph as the generated sing_send_graph_launch does, with the counts in the message. A captured launch
 * becomes a graph in a graph; the nodes of the inner graph are counted.
 */
static CUresult launch_counted(CUgraphExec exec, CUstream stream, const struct sing_count *counts, unsigned int n)
{
	const struct ring_need need = { .op = SING_OP_graph_launch, .counts = (uint16_t)n, .count = counts };
	uint64_t message[] = { (uintptr_t)exec, (uintptr_t)stream };
	const struct sing_message m = { .op = need.op, .in = message, .n = sizeof(message) };
	struct ring_draft d;
	unsigned char *at;
	int r;

	if (sing_captures() && sing_capture_watch(&m, &r))
		return r == SING_GONE ? CUDA_ERROR_SYSTEM_NOT_READY : r;
	r = sing_stage(&d, need, sizeof(message), &at);
	if (r == 0) {
		memcpy(at, message, sizeof(message));
		r = ring_post(&d) == RING_OK ? 0 : SING_GONE;
	}
	return r == SING_GONE ? CUDA_ERROR_SYSTEM_NOT_READY : r;
}

CUresult sing_cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	struct sing_count *counts;
	unsigned int n;
	CUresult r;

	if (exec == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!atomic_load_explicit(&has_graphs, memory_order_relaxed))
		return sing_send_graph_launch(0, exec, stream);
	counts = counts_of(exec, &n);
	if (n == 0)
		return sing_send_graph_launch(0, exec, stream);
	if (counts == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = launch_counted(exec, stream, counts, n);
	free(counts);
	return r;
}
SING_PUBLIC(cuGraphLaunch);

CUresult sing_cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream)
{
	return sing_cuGraphLaunch(exec, stream == NULL ? (CUstream)2 : stream);
}
SING_PUBLIC(cuGraphLaunch_ptsz);
