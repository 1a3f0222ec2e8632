// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* The calls by which programs capture: see capture.h. */
#include "attach.h"
#include "capture.h"
#include "transport.h"

#include <string.h>

/* Both functions of a call with the stream as its first argument. */
#define BOTH(name, parameters, ...)                                   \
	CUresult sing_##name parameters { return name##_(0, __VA_ARGS__); } \
	SING_PUBLIC(name);                                            \
	CUresult sing_##name##_ptsz parameters { return name##_(1, __VA_ARGS__); } \
	SING_PUBLIC(name##_ptsz)

/* The error of a call without a current context. */
static CUresult no_context(void)
{
	return sing_is_initialized() ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_NOT_INITIALIZED;
}

static CUresult begin_capture(int own, CUstream stream, CUgraph graph, const CUgraphNode *nodes, size_t n, int mode)
{
	struct sing_capture start = { .mode = mode };
	const uint64_t key = sing_capture_key(stream, own);
	unsigned int flags = 0;
	CUgraph made = NULL;
	CUresult r;

	if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED || (nodes == NULL && n > 0))
		return CUDA_ERROR_INVALID_VALUE;
	start.context = sing_context_current();
	if (start.context == NULL)
		return no_context();
	if (key == SING_LEGACY_KEY)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	r = sing_send_cuStreamGetFlags(0, key >> 63 ? (CUstream)2 : stream, &flags);
	if (r == CUDA_SUCCESS && graph == NULL)
		r = sing_send_cuGraphCreate(0, &made, 0);
	if (r != CUDA_SUCCESS)
		return r;
	start.graph = graph == NULL ? made : graph;
	start.ours = graph == NULL;
	sing_capture_lock();
	r = sing_capture_begin(key, !(flags & CU_STREAM_NON_BLOCKING), &start, nodes, n);
	sing_capture_unlock();
	if (r != CUDA_SUCCESS && made != NULL)
		sing_send_cuGraphDestroy(0, made);
	return r;
}

static CUresult cuStreamBeginCapture_v2_(int own, CUstream stream, int mode)
{
	return begin_capture(own, stream, NULL, NULL, 0, mode);
}
BOTH(cuStreamBeginCapture_v2, (CUstream stream, int mode), stream, mode);

static CUresult cuStreamBeginCapture_(int own, CUstream stream)
{
	return begin_capture(own, stream, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL);
}
BOTH(cuStreamBeginCapture, (CUstream stream), stream);

/* The only kind of dependency is all zeros. */
static bool is_plain(const CUgraphEdgeData *edges, size_t n)
{
	static const CUgraphEdgeData plain;

	for (size_t i = 0; edges != NULL && i < n; ++i)
		if (memcmp(&edges[i], &plain, sizeof(plain)) != 0)
			return false;
	return true;
}

static CUresult cuStreamBeginCaptureToGraph_(int own, CUstream stream, CUgraph graph, const CUgraphNode *deps,
					     const CUgraphEdgeData *edges, size_t n, int mode)
{
	if (graph == NULL || (deps == NULL && n > 0))
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_plain(edges, n))
		return CUDA_ERROR_NOT_SUPPORTED;
	return begin_capture(own, stream, graph, deps, n, mode);
}
BOTH(cuStreamBeginCaptureToGraph,
     (CUstream stream, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *edges, size_t n, int mode), stream,
     graph, deps, edges, n, mode);

/* Whether a stream captures into a graph that the program made: the program knows that graph. */
static bool captures_into_theirs(uint64_t key)
{
	const struct sing_strand *s = sing_strand_of(key);

	return s != NULL && !s->in->ours;
}

static CUresult cuStreamEndCapture_(int own, CUstream stream, CUgraph *graph)
{
	const uint64_t key = sing_capture_key(stream, own);
	CUgraph captured = NULL;
	bool ours = false;
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	if (graph != NULL)
		*graph = NULL;
	sing_capture_lock();
	if (graph != NULL || captures_into_theirs(key))
		r = sing_capture_end(key, &captured, &ours);
	sing_capture_unlock();
	if (graph == NULL)
		return r;
	if (r == CUDA_SUCCESS)
		*graph = captured;
	else if (ours && captured != NULL)
		sing_send_cuGraphDestroy(0, captured);
	return r;
}
BOTH(cuStreamEndCapture, (CUstream stream, CUgraph *graph), stream, graph);

/* Where to write the facts of a stream's capture. A fact that the caller does not ask for has NULL. */
struct info {
	int *status;
	unsigned long long *id;
	CUgraph *graph;
	void **nodes, **edges;
	size_t *n;
};

static CUresult get_info(int own, CUstream stream, const struct info *to)
{
	const uint64_t key = sing_capture_key(stream, own);
	const struct sing_strand *s;
	const CUcontext context = sing_context_current();
	CUresult r = CUDA_SUCCESS;

	if (to->status == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (context == NULL)
		return no_context();
	*to->status = CU_STREAM_CAPTURE_STATUS_NONE;
	if (!sing_captures())
		return CUDA_SUCCESS;
	sing_capture_lock();
	s = sing_strand_of(key);
	if (key == SING_LEGACY_KEY)
		r = sing_capture_legacy(context, true);
	if (s != NULL) {
		*to->status = s->in->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
		if (to->id != NULL)
			*to->id = s->in->id;
		if (to->graph != NULL)
			*to->graph = s->in->graph;
		if (to->nodes != NULL)
			*to->nodes = s->nodes.at;
		if (to->edges != NULL)
			*to->edges = s->nodes.edges;
		if (to->n != NULL)
			*to->n = s->nodes.n;
	}
	sing_capture_unlock();
	return r;
}

static CUresult cuStreamIsCapturing_(int own, CUstream stream, int *status)
{
	return get_info(own, stream, &(struct info){ .status = status });
}
BOTH(cuStreamIsCapturing, (CUstream stream, int *status), stream, status);

static CUresult cuStreamGetCaptureInfo_(int own, CUstream stream, int *status, unsigned long long *id)
{
	return get_info(own, stream, &(struct info){ .status = status, .id = id });
}
BOTH(cuStreamGetCaptureInfo, (CUstream stream, int *status, unsigned long long *id), stream, status, id);

/* The arrays belong to the capture, and are valid until the stream's next call. */
static CUresult cuStreamGetCaptureInfo_v2_(int own, CUstream stream, int *status, unsigned long long *id, CUgraph *graph,
					   void **deps, size_t *n)
{
	return get_info(own, stream, &(struct info){ status, id, graph, deps, NULL, n });
}
BOTH(cuStreamGetCaptureInfo_v2, (CUstream stream, int *status, unsigned long long *id, CUgraph *graph, void **deps, size_t *n),
     stream, status, id, graph, deps, n);

static CUresult cuStreamGetCaptureInfo_v3_(int own, CUstream stream, int *status, unsigned long long *id, CUgraph *graph,
					   void **deps, void **edges, size_t *n)
{
	return get_info(own, stream, &(struct info){ status, id, graph, deps, edges, n });
}
BOTH(cuStreamGetCaptureInfo_v3,
     (CUstream stream, int *status, unsigned long long *id, CUgraph *graph, void **deps, void **edges, size_t *n), stream,
     status, id, graph, deps, edges, n);

static CUresult update_dependencies(int own, CUstream stream, const CUgraphNode *deps, const CUgraphEdgeData *edges, size_t n,
				    unsigned int flags)
{
	struct sing_strand *s;
	CUresult r = CUDA_ERROR_ILLEGAL_STATE;

	if (!is_plain(edges, n))
		return CUDA_ERROR_NOT_SUPPORTED;
	sing_capture_lock();
	s = sing_strand_of(sing_capture_key(stream, own));
	if (s != NULL)
		r = sing_capture_update(s, deps, n, flags);
	sing_capture_unlock();
	return r;
}

static CUresult cuStreamUpdateCaptureDependencies_(int own, CUstream stream, const CUgraphNode *deps, size_t n, unsigned int flags)
{
	return update_dependencies(own, stream, deps, NULL, n, flags);
}
BOTH(cuStreamUpdateCaptureDependencies, (CUstream stream, const CUgraphNode *deps, size_t n, unsigned int flags), stream,
     deps, n, flags);

static CUresult cuStreamUpdateCaptureDependencies_v2_(int own, CUstream stream, const CUgraphNode *deps,
						      const CUgraphEdgeData *edges, size_t n, unsigned int flags)
{
	return update_dependencies(own, stream, deps, edges, n, flags);
}
BOTH(cuStreamUpdateCaptureDependencies_v2,
     (CUstream stream, const CUgraphNode *deps, const CUgraphEdgeData *edges, size_t n, unsigned int flags), stream, deps,
     edges, n, flags);

CUresult sing_cuThreadExchangeStreamCaptureMode(int *mode)
{
	if (mode == NULL || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = sing_capture_mode(*mode);
	return CUDA_SUCCESS;
}
SING_PUBLIC(cuThreadExchangeStreamCaptureMode);
