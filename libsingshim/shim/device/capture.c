// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* The state of captures: see capture.h. */
#include "capture.h"

#include <stdlib.h>
#include <string.h>

/* An event that was last recorded in a capture. */
struct mark {
	struct mark *next;
	struct sing_capture *in;
	uint64_t event;
	struct sing_nodes nodes;
};

static struct sing_strand *strands;
static struct mark *marks;
static unsigned long long ids;

_Atomic unsigned int sing_capture_count;

/* Captures, and their strands and marks. */

static void drop_user(struct sing_capture *c)
{
	if (--c->users > 0)
		return;
	sing_nodes_clear(&c->leaves);
	free(c);
}

static void add_member(struct sing_capture *c)
{
	++c->users;
	atomic_fetch_add_explicit(&sing_capture_count, 1, memory_order_relaxed);
}

static void drop_member(struct sing_capture *c)
{
	drop_user(c);
	atomic_fetch_sub_explicit(&sing_capture_count, 1, memory_order_relaxed);
}

struct sing_strand *sing_strand_of(uint64_t stream)
{
	for (struct sing_strand *s = strands; s != NULL; s = s->next)
		if (s->stream == stream)
			return s;
	return NULL;
}

static struct sing_strand *add_strand(struct sing_capture *c, uint64_t stream, bool blocking, const CUgraphNode *nodes, size_t n)
{
	struct sing_strand *s = calloc(1, sizeof(*s));

	if (s == NULL || !sing_nodes_add(&s->nodes, nodes, n)) {
		if (s != NULL)
			sing_nodes_clear(&s->nodes);
		free(s);
		return NULL;
	}
	s->in = c;
	s->stream = stream;
	s->blocking = blocking;
	s->next = strands;
	strands = s;
	add_member(c);
	return s;
}

static void remove_strand(struct sing_strand **at)
{
	struct sing_strand *s = *at;

	*at = s->next;
	sing_nodes_clear(&s->nodes);
	drop_member(s->in);
	free(s);
}

static struct mark **mark_of(uint64_t event)
{
	struct mark **m = &marks;

	while (*m != NULL && (*m)->event != event)
		m = &(*m)->next;
	return m;
}

static void remove_mark(struct mark **at)
{
	struct mark *m = *at;

	*at = m->next;
	sing_nodes_clear(&m->nodes);
	drop_member(m->in);
	free(m);
}

void sing_capture_invalidate(struct sing_capture *c)
{
	if (!c->ended)
		c->invalid = true;
}

CUresult sing_capture_begin(uint64_t stream, bool blocking, const struct sing_capture *start, const CUgraphNode *nodes, size_t n)
{
	struct sing_strand *s = sing_strand_of(stream);
	struct sing_capture *c;

	if (s != NULL) {
		sing_capture_invalidate(s->in);
		return CUDA_ERROR_ILLEGAL_STATE;
	}
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	c->graph = start->graph;
	c->ours = start->ours;
	c->mode = start->mode;
	c->context = start->context;
	c->thread = sing_capture_thread();
	c->origin = stream;
	c->id = ++ids;
	c->users = 1;
	s = add_strand(c, stream, blocking, nodes, n);
	drop_user(c);
	return s == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static bool is_joined(const struct sing_capture *c, const struct sing_nodes *with)
{
	for (size_t i = 0; i < c->leaves.n; ++i)
		if (!sing_nodes_has(with, c->leaves.at[i]))
			return false;
	return true;
}

static void end_capture(struct sing_capture *c)
{
	++c->users;
	c->ended = true;
	for (struct sing_strand **at = &strands; *at != NULL;) {
		if ((*at)->in == c)
			remove_strand(at);
		else
			at = &(*at)->next;
	}
	drop_user(c);
}

CUresult sing_capture_end(uint64_t stream, CUgraph *graph, bool *ours)
{
	struct sing_strand *s = sing_strand_of(stream);
	struct sing_capture *c;
	CUresult r = CUDA_SUCCESS;

	*graph = NULL;
	*ours = false;
	if (s == NULL)
		return CUDA_ERROR_ILLEGAL_STATE;
	c = s->in;
	if (c->origin != stream || (c->thread != sing_capture_thread() && c->mode != CU_STREAM_CAPTURE_MODE_RELAXED)) {
		sing_capture_invalidate(c);
		return c->origin != stream ? CUDA_ERROR_STREAM_CAPTURE_UNMATCHED : CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	}
	*graph = c->graph;
	*ours = c->ours;
	if (c->invalid)
		r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else if (!is_joined(c, &s->nodes))
		r = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	end_capture(c);
	return r;
}

CUresult sing_capture_add(struct sing_strand *const *s, size_t n, CUgraphNode node)
{
	struct sing_capture *c = s[0]->in;
	bool room = sing_nodes_reserve(&c->leaves, 1);

	for (size_t k = 0; k < n; ++k)
		room = sing_nodes_reserve(&s[k]->nodes, 1) && room;
	if (!room) {
		sing_capture_invalidate(c);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	for (size_t k = 0; k < n; ++k) {
		for (size_t i = 0; i < s[k]->nodes.n; ++i)
			sing_nodes_drop(&c->leaves, s[k]->nodes.at[i]);
		s[k]->nodes.n = 0;
		sing_nodes_add(&s[k]->nodes, &node, 1);
	}
	sing_nodes_add(&c->leaves, &node, 1);
	return CUDA_SUCCESS;
}

CUresult sing_capture_update(struct sing_strand *s, const CUgraphNode *nodes, size_t n, unsigned int flags)
{
	struct sing_nodes next = { 0 };

	if (s->in->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (nodes == NULL && n > 0))
		return CUDA_ERROR_INVALID_VALUE;
	if (flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES)
		return sing_nodes_add(&s->nodes, nodes, n) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	if (!sing_nodes_add(&next, nodes, n)) {
		sing_nodes_clear(&next);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	/* Nodes that the program removes from the stream's dependencies need not be joined. */
	for (size_t i = 0; i < s->nodes.n; ++i)
		if (!sing_nodes_has(&next, s->nodes.at[i]))
			sing_nodes_drop(&s->in->leaves, s->nodes.at[i]);
	sing_nodes_clear(&s->nodes);
	s->nodes = next;
	return CUDA_SUCCESS;
}

CUresult sing_capture_record(uint64_t event, uint64_t stream, bool *captured)
{
	struct sing_strand *s = sing_strand_of(stream);
	struct mark **at = mark_of(event), *m = *at;
	struct sing_nodes nodes = { 0 };

	*captured = s != NULL;
	if (s == NULL) {
		if (m != NULL)
			remove_mark(at);
		return CUDA_SUCCESS;
	}
	if (s->in->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (!sing_nodes_add(&nodes, s->nodes.at, s->nodes.n) || (m == NULL && (m = calloc(1, sizeof(*m))) == NULL)) {
		sing_nodes_clear(&nodes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	add_member(s->in);
	if (*at == NULL) {
		m->event = event;
		m->next = marks;
		marks = m;
	} else {
		sing_nodes_clear(&m->nodes);
		drop_member(m->in);
	}
	m->in = s->in;
	m->nodes = nodes;
	return CUDA_SUCCESS;
}

CUresult sing_capture_wait(uint64_t stream, uint64_t event, bool (*blocking)(uint64_t), bool *captured)
{
	struct sing_strand *s = sing_strand_of(stream);
	struct mark *m = *mark_of(event);
	struct sing_capture *c;

	*captured = s != NULL || m != NULL;
	if (s != NULL && s->in->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (m == NULL) {
		if (s == NULL)
			return CUDA_SUCCESS;
		sing_capture_invalidate(s->in); /* the event is of work outside the capture */
		return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	}
	c = m->in;
	if (c->ended) {
		if (s != NULL)
			sing_capture_invalidate(s->in);
		return CUDA_ERROR_CAPTURED_EVENT;
	}
	if (c->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (s != NULL && s->in != c) {
		sing_capture_invalidate(s->in);
		sing_capture_invalidate(c);
		return CUDA_ERROR_STREAM_CAPTURE_MERGE;
	}
	if (stream == SING_LEGACY_KEY) {
		sing_capture_invalidate(c);
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	if (s == NULL)
		s = add_strand(c, stream, blocking(stream), m->nodes.at, m->nodes.n);
	else if (!sing_nodes_add(&s->nodes, m->nodes.at, m->nodes.n))
		s = NULL;
	if (s != NULL)
		return CUDA_SUCCESS;
	sing_capture_invalidate(c);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sing_capture_ask_event(uint64_t event)
{
	const struct mark *m = *mark_of(event);

	if (m == NULL)
		return CUDA_SUCCESS;
	if (m->in->ended)
		return CUDA_ERROR_INVALID_VALUE; /* no work is behind the event until it is recorded again */
	sing_capture_invalidate(m->in);
	return CUDA_ERROR_CAPTURED_EVENT;
}

void sing_capture_drop_event(uint64_t event)
{
	struct mark **at = mark_of(event);

	if (*at != NULL)
		remove_mark(at);
}

CUgraph sing_capture_drop_stream(uint64_t stream)
{
	struct sing_strand **at = &strands;
	struct sing_capture *c;
	CUgraph graph;

	while (*at != NULL && (*at)->stream != stream)
		at = &(*at)->next;
	if (*at == NULL)
		return NULL;
	c = (*at)->in;
	if (c->origin != stream) {
		remove_strand(at);
		return NULL;
	}
	graph = c->ours ? c->graph : NULL;
	end_capture(c);
	return graph;
}

CUresult sing_capture_legacy(CUcontext context, bool harmless)
{
	CUresult r = CUDA_SUCCESS;

	for (struct sing_strand *s = strands; s != NULL; s = s->next) {
		if (!s->blocking || s->in->context != context)
			continue;
		if (!harmless)
			sing_capture_invalidate(s->in);
		r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	return r;
}

CUresult sing_capture_wait_all(CUcontext context)
{
	CUresult r = CUDA_SUCCESS;

	for (struct sing_strand *s = strands; s != NULL; s = s->next) {
		if (s->in->context != context)
			continue;
		sing_capture_invalidate(s->in);
		r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	return r;
}

CUresult sing_capture_unsafe(void)
{
	CUresult r = CUDA_SUCCESS;

	if (sing_capture_thread_mode() == CU_STREAM_CAPTURE_MODE_RELAXED)
		return r;
	for (struct sing_strand *s = strands; s != NULL; s = s->next) {
		const struct sing_capture *c = s->in;
		const bool own = c->thread == sing_capture_thread();

		if (own ? c->mode == CU_STREAM_CAPTURE_MODE_RELAXED
			: c->mode != CU_STREAM_CAPTURE_MODE_GLOBAL || sing_capture_thread_mode() != CU_STREAM_CAPTURE_MODE_GLOBAL)
			continue;
		sing_capture_invalidate(s->in);
		r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	return r;
}
