// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* The check of each message that is sent while a stream captures: see capture.h. */
#include "capture.h"
#include "context.h"
#include "hostfunc.h"
#include "ops.h"
#include "streams.h"
#include "transport.h"

#include <string.h>

static _Atomic bool captured_counts;

bool sing_captured_counts(void)
{
	return atomic_load_explicit(&captured_counts, memory_order_relaxed);
}

static uint64_t read_word(const struct sing_message *m, size_t at)
{
	uint64_t value = 0;

	if (m->n >= sizeof(value) && at <= m->n - sizeof(value))
		memcpy(&value, (const char *)m->in + at, sizeof(value));
	return value;
}

static uint32_t read_flags(const struct sing_message *m, size_t at)
{
	uint32_t value = 0;

	if (m->n >= sizeof(value) && at <= m->n - sizeof(value))
		memcpy(&value, (const char *)m->in + at, sizeof(value));
	return value;
}

static const struct sing_on_stream *find_stream_call(uint32_t op)
{
	unsigned int low = 0, high = sing_on_stream_count;

	while (low < high) {
		const unsigned int middle = low + (high - low) / 2;

		if (sing_on_streams[middle].op == op)
			return &sing_on_streams[middle];
		if (sing_on_streams[middle].op < op)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

static uint64_t key_of(const struct sing_message *m, uint64_t stream)
{
	return sing_capture_key((CUstream)(uintptr_t)stream, (m->op & SING_PER_THREAD) != 0);
}

/* Whether the legacy stream waits for the stream. The answer is the server's, and is kept. */
static bool is_blocking(uint64_t stream)
{
	unsigned int how = 0;

	if (stream >> 63)
		return true;
	return sing_send_cuStreamGetFlags(0, (CUstream)(uintptr_t)stream, &how) != CUDA_SUCCESS || !(how & CU_STREAM_NON_BLOCKING);
}

/* Make the message a node behind the nodes of the strands, which are in the same capture. */
static CUresult record_node(struct sing_strand *const *s, size_t n, const struct sing_message *m)
{
	struct sing_capture *const c = s[0]->in;
	struct sing_nodes deps = { 0 };
	size_t got = m->room;
	CUgraphNode node;
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;
	bool all = true;

	if (c->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	for (size_t i = 0; i < n; ++i)
		all = sing_nodes_add(&deps, s[i]->nodes.at, s[i]->nodes.n) && all;
	if (all)
		r = sing_send_captured(0, &node, c->graph, deps.at, deps.n, (const sing_nccl_count *)m->counts, m->k, m->op, m->in,
				       m->n, m->out, &got);
	sing_nodes_clear(&deps);
	if (r != CUDA_SUCCESS) {
		sing_capture_invalidate(c);
		return r;
	}
	if (m->got != NULL)
		*m->got = got;
	if (m->k > 0)
		atomic_store_explicit(&captured_counts, true, memory_order_relaxed);
	return sing_capture_add(s, n, node);
}

static CUresult refuse_call(struct sing_strand *s)
{
	if (s->in->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	sing_capture_invalidate(s->in);
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/* cuEventRecord, cuStreamWaitEvent: dependencies, unless the event is outside of the graph. */
static bool record_dependency(const struct sing_message *m, uint64_t stream, uint64_t event, bool external, CUresult *r)
{
	struct sing_strand *s = sing_strand_of(stream);
	bool captured = false;

	if (external && s != NULL) {
		*r = record_node(&s, 1, m);
		return true;
	}
	if (stream == SING_LEGACY_KEY && (*r = sing_capture_legacy(sing_context_current(), false)) != CUDA_SUCCESS)
		return true;
	if ((m->op & ~SING_PER_THREAD) == SING_OP_cuStreamWaitEvent)
		*r = sing_capture_wait(stream, event, is_blocking, &captured);
	else
		*r = sing_capture_record(event, stream, &captured);
	return captured;
}

/*
 * A group of collectives, each for a stream of its own: all of them become a single node. If only some of the
 * streams capture, the group is an error, which invalidates their captures.
 */
static bool watch_group(const struct sing_message *m, CUresult *r)
{
	enum { MOST = 64 };
	struct sing_strand *all[MOST];
	const uint64_t counts = read_word(m, 0), at = 8 + counts * sizeof(sing_nccl_count) + 4, ops = read_word(m, at);
	size_t n = 0, outside = 0;

	for (uint64_t i = 0; i < ops; ++i) {
		const uint64_t stream =
			key_of(m, read_word(m, at + 8 + i * sizeof(sing_nccl_op) + offsetof(sing_nccl_op, stream)));
		struct sing_strand *const s = sing_strand_of(stream);
		size_t k = 0;

		if (s == NULL && stream == SING_LEGACY_KEY && *r == CUDA_SUCCESS)
			*r = sing_capture_legacy(sing_context_current(), false);
		outside += s == NULL;
		while (k < n && all[k] != s)
			++k;
		if (s != NULL && k == n && n < MOST)
			all[n++] = s;
		else if (s != NULL && k == n)
			outside = 1;
	}
	if (n == 0)
		return *r != CUDA_SUCCESS;
	for (size_t i = 1; i < n && *r == CUDA_SUCCESS; ++i)
		if (all[i]->in != all[0]->in)
			*r = CUDA_ERROR_STREAM_CAPTURE_MERGE;
	if (*r == CUDA_SUCCESS && outside > 0)
		*r = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	if (*r == CUDA_SUCCESS)
		*r = record_node(all, n, m);
	for (size_t i = 0; i < n && *r != CUDA_SUCCESS; ++i)
		sing_capture_invalidate(all[i]->in);
	return true;
}

/* Work for a stream, or a question about a stream. */
static bool watch_stream_call(const struct sing_message *m, const struct sing_on_stream *is, CUresult *r)
{
	const uint32_t op = m->op & ~SING_PER_THREAD;
	uint64_t stream = 0;
	struct sing_strand *s;
	bool refused;

	if (op == SING_OP_nccl_group)
		return watch_group(m, r);
	if (is->use != SING_STREAM_DEFAULT)
		stream = read_word(m, is->at >= 0 ? (size_t)is->at : m->n - (size_t)-is->at);
	stream = key_of(m, stream);
	if (op == SING_OP_cuEventRecord)
		return record_dependency(m, stream, read_word(m, 0), false, r);
	if (op == SING_OP_cuEventRecordWithFlags)
		return record_dependency(m, stream, read_word(m, 0), read_flags(m, 16) & CU_EVENT_RECORD_EXTERNAL, r);
	if (op == SING_OP_cuStreamWaitEvent)
		return record_dependency(m, stream, read_word(m, 8), read_flags(m, 16) & CU_EVENT_WAIT_EXTERNAL, r);
	if (op == SING_OP_cuStreamGetAttribute || op == SING_OP_cuStreamGetId)
		return false;
	s = sing_strand_of(stream);
	if (s == NULL) {
		*r = CUDA_SUCCESS;
		if (stream == SING_LEGACY_KEY)
			*r = sing_capture_legacy(sing_context_current(), false);
		if (*r == CUDA_SUCCESS && is->use != SING_STREAM_WORK)
			*r = sing_capture_unsafe();
		return *r != CUDA_SUCCESS;
	}
	/*
	 * A copy with its bytes in the message would copy the bytes of the moment of the capture, not those of the
	 * launch.
	 */
	refused = is->use != SING_STREAM_WORK || op == SING_OP_copy_in || op == SING_OP_cuGraphUpload;
	*r = refused ? refuse_call(s) : record_node(&s, 1, m);
	return true;
}

/* Calls without a stream that are errors while a stream captures, or that end a stream or an event of a capture. */
static bool watch_other_call(const struct sing_message *m, CUresult *r)
{
	CUgraph graph;

	switch (m->op & ~SING_PER_THREAD) {
	case SING_OP_cuEventQuery:
	case SING_OP_cuEventSynchronize:
		*r = sing_capture_ask_event(read_word(m, 0));
		if (*r == CUDA_SUCCESS)
			*r = sing_capture_unsafe();
		return *r != CUDA_SUCCESS;
	case SING_OP_cuEventElapsedTime:
	case SING_OP_cuEventElapsedTime_v2:
		*r = sing_capture_ask_event(read_word(m, 0));
		if (*r == CUDA_SUCCESS)
			*r = sing_capture_ask_event(read_word(m, 8));
		return *r != CUDA_SUCCESS;
	case SING_OP_cuEventDestroy_v2:
		sing_capture_drop_event(read_word(m, 0));
		return false;
	case SING_OP_cuStreamDestroy_v2:
		graph = sing_capture_drop_stream(key_of(m, read_word(m, 0)));
		if (graph != NULL)
			sing_send_cuGraphDestroy(0, graph);
		return false;
	case SING_OP_cuCtxSynchronize:
		*r = sing_capture_is_own_wait() ? CUDA_SUCCESS : sing_capture_wait_all(sing_context_current());
		return *r != CUDA_SUCCESS;
	case SING_OP_cuCtxSynchronize_v2:
		*r = sing_capture_is_own_wait() ? CUDA_SUCCESS : sing_capture_wait_all((CUcontext)(uintptr_t)read_word(m, 0));
		return *r != CUDA_SUCCESS;
	case SING_OP_cuMemAlloc_v2:
	case SING_OP_cuMemAllocPitch_v2:
	case SING_OP_cuMemFree_v2:
	case SING_OP_host_alloc:
	case SING_OP_host_free:
	case SING_OP_host_register:
	case SING_OP_host_unregister:
		*r = sing_capture_unsafe();
		return *r != CUDA_SUCCESS;
	}
	return false;
}

static bool is_watched(uint32_t op)
{
	switch (op) {
	case SING_OP_cuEventQuery:
	case SING_OP_cuEventSynchronize:
	case SING_OP_cuEventElapsedTime:
	case SING_OP_cuEventElapsedTime_v2:
	case SING_OP_cuEventDestroy_v2:
	case SING_OP_cuStreamDestroy_v2:
	case SING_OP_cuCtxSynchronize:
	case SING_OP_cuCtxSynchronize_v2:
	case SING_OP_cuMemAlloc_v2:
	case SING_OP_cuMemAllocPitch_v2:
	case SING_OP_cuMemFree_v2:
	case SING_OP_host_alloc:
	case SING_OP_host_free:
	case SING_OP_host_register:
	case SING_OP_host_unregister:
		return true;
	}
	return false;
}

/*
 * The error of the call's library for an error of CUDA: NCCL has a single error for all errors of CUDA, and NVML has
 * only an unknown error.
 */
static int library_error(uint32_t op, CUresult r)
{
	const struct sing_op *o = sing_op_find(op);

	if (o == NULL || o->library == SING_DRIVER)
		return r;
	return o->library == SING_NCCL ? (int)ncclUnhandledCudaError : (int)NVML_ERROR_UNKNOWN;
}

bool sing_capture_watch(const struct sing_message *m, int *result)
{
	const struct sing_on_stream *is = find_stream_call(m->op & ~SING_PER_THREAD);
	CUresult r = CUDA_SUCCESS;
	bool done;

	if (sing_in_host_func()) {
		r = CUDA_ERROR_NOT_PERMITTED;
		done = true;
	} else if (is != NULL || is_watched(m->op & ~SING_PER_THREAD)) {
		sing_capture_lock();
		done = is != NULL ? watch_stream_call(m, is, &r) : watch_other_call(m, &r);
		sing_capture_unlock();
	} else {
		return false; /* these need no lock; so this file can send such messages with the lock held */
	}
	if (r > 0)
		r = library_error(m->op, r);
	*result = r;
	return done;
}

CUresult sing_capture_refuse(CUstream stream, bool per_thread)
{
	CUresult r = CUDA_SUCCESS;
	struct sing_strand *s;

	if (!sing_captures())
		return r;
	sing_capture_lock();
	s = sing_strand_of(sing_capture_key(stream, per_thread));
	if (s != NULL)
		r = refuse_call(s);
	sing_capture_unlock();
	return r;
}

CUresult sing_capture_allows(CUstream stream, bool waits)
{
	const uint64_t k = sing_capture_key(stream, false);
	CUresult r = CUDA_SUCCESS;
	struct sing_strand *s;

	if (sing_in_host_func())
		return CUDA_ERROR_NOT_PERMITTED;
	sing_capture_lock();
	s = sing_strand_of(k);
	if (s != NULL && waits)
		r = refuse_call(s);
	if (k == SING_LEGACY_KEY)
		r = sing_capture_legacy(sing_context_current(), false);
	if (r == CUDA_SUCCESS && s == NULL && waits)
		r = sing_capture_unsafe();
	sing_capture_unlock();
	return r;
}

CUresult sing_capture_allows_unsafe(void)
{
	CUresult r;

	if (!sing_captures())
		return CUDA_SUCCESS;
	if (sing_in_host_func())
		return CUDA_ERROR_NOT_PERMITTED;
	sing_capture_lock();
	r = sing_capture_unsafe();
	sing_capture_unlock();
	return r;
}

unsigned long long sing_capture_id(CUstream stream)
{
	const struct sing_strand *s;
	unsigned long long id = 0;

	if (!sing_captures())
		return 0;
	sing_capture_lock();
	s = sing_strand_of(sing_capture_key(stream, false));
	if (s != NULL)
		id = s->in->id;
	sing_capture_unlock();
	return id;
}
