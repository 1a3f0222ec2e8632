// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "fake.h"

#include <time.h>

struct op *new_op(int (*run)(struct op *, CUcontext))
{
	struct op *o = calloc(1, sizeof(*o));

	o->run = run;
	return (o);
}

void let_go(struct point *p)
{
	if (p && --p->refs == 0)
		free(p);
}

/* A stream's thread: its operations, in their order. A fault drops the operations behind. */
static void *run_stream(void *arg)
{
	CUstream s = arg;
	CUcontext c = s->ctx;
	struct op *o;
	int fault;

	pthread_mutex_lock(&big);
	for (;;) {
		while (!s->first && !s->closing && !c->dead)
			pthread_cond_wait(&changed, &big);
		o = s->first;
		if (!o)
			break;
		s->first = o->next;
		if (!s->first)
			s->last = &s->first;
		s->busy = true;
		if (!c->fault && !c->dead) {
			pthread_mutex_unlock(&big);
			fault = o->run(o, c);
			pthread_mutex_lock(&big);
			if (fault && !c->fault)
				c->fault = fault;
		}
		if (o->end)
			o->end(o);
		free(o);
		s->busy = false;
		pthread_cond_broadcast(&changed);
	}
	pthread_mutex_unlock(&big);
	return (NULL);
}

void push(CUstream s, struct op *o)
{
	pthread_mutex_lock(&big);
	*s->last = o;
	s->last = &o->next;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&big);
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
	CUstream s;

	CALL(" flags %u, priority %d", flags, priority);
	CONTEXT(c);
	s = fake_count(calloc(1, sizeof(*s)), STREAMS, 1);
	s->id = fake_number(STREAMS);
	s->ctx = c;
	s->last = &s->first;
	pthread_mutex_lock(&big);
	s->next = c->streams;
	c->streams = s;
	pthread_mutex_unlock(&big);
	if (pthread_create(&s->thread, NULL, run_stream, s))
		abort();
	*stream = s;
	return (OK);
}

static void end_stream(CUstream s)
{
	pthread_mutex_lock(&big);
	s->closing = true;
	pthread_cond_broadcast(&changed);
	for (CUstream *at = &s->ctx->streams; *at; at = &(*at)->next) {
		if (*at != s)
			continue;
		*at = s->next;
		break;
	}
	pthread_mutex_unlock(&big);
	pthread_join(s->thread, NULL);
	free(fake_count(s, STREAMS, -1));
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
	ENDING(" stream %d", stream->id);
	end_stream(stream);
	return (told);
}

void end_streams(CUcontext c)
{
	pthread_mutex_lock(&big);
	c->dead = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&big);
	while (c->streams)
		end_stream(c->streams);
}

CUresult cuStreamQuery(CUstream stream)
{
	CUresult r;

	CALL(NULL);
	CONTEXT(c);
	pthread_mutex_lock(&big);
	r = stream->first || stream->busy ? NOT_READY : c->fault;
	pthread_mutex_unlock(&big);
	return (r);
}

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
	CUevent e;

	CALL(" flags %u", flags);
	CONTEXT(c);
	e = fake_count(calloc(1, sizeof(*e)), EVENTS, 1);
	e->id = fake_number(EVENTS);
	e->ctx = c;
	e->timing = !(flags & 2);
	__atomic_add_fetch(&c->events, 1, __ATOMIC_SEQ_CST);
	*event = e;
	return (OK);
}

CUresult cuEventDestroy_v2(CUevent event)
{
	ENDING(" event %d", event->id);
	__atomic_sub_fetch(&event->ctx->events, 1, __ATOMIC_SEQ_CST);
	pthread_mutex_lock(&big);
	let_go(event->last);
	pthread_mutex_unlock(&big);
	free(fake_count(event, EVENTS, -1));
	return (told);
}

static int run_nothing(struct op *o, CUcontext c)
{
	(void)o;
	(void)c;
	return (0);
}

static void reach_point(struct op *o)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	o->point->done = true;
	o->point->at = t.tv_sec * 1e3 + t.tv_nsec / 1e6;
	let_go(o->point);
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
	struct op *o;

	CALL(" event %d in stream %d", event->id, stream->id);
	CONTEXT(c);
	(void)c;
	o = new_op(run_nothing);
	o->end = reach_point;
	o->point = calloc(1, sizeof(*o->point));
	o->point->refs = 2;
	pthread_mutex_lock(&big);
	let_go(event->last);
	event->last = o->point;
	pthread_mutex_unlock(&big);
	push(stream, o);
	return (OK);
}

CUresult cuEventQuery(CUevent event)
{
	CUresult r;

	CALL(NULL);
	CONTEXT(c);
	pthread_mutex_lock(&big);
	r = event->last && !event->last->done ? NOT_READY : c->fault;
	pthread_mutex_unlock(&big);
	return (r);
}

CUresult cuEventSynchronize(CUevent event)
{
	CALL(" event %d", event->id);
	CONTEXT(c);
	pthread_mutex_lock(&big);
	while (event->last && !event->last->done)
		pthread_cond_wait(&changed, &big);
	pthread_mutex_unlock(&big);
	return (c->fault);
}

static CUresult time_between(float *milliseconds, CUevent start, CUevent end)
{
	CUresult r = OK;

	CONTEXT(c);
	(void)c;
	pthread_mutex_lock(&big);
	if (!start->timing || !end->timing || !start->last || !end->last)
		r = INVALID_HANDLE;
	else if (!start->last->done || !end->last->done)
		r = NOT_READY;
	else
		*milliseconds = end->last->at - start->last->at;
	pthread_mutex_unlock(&big);
	return (r);
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
	CALL(" from event %d to %d", start->id, end->id);
	return (time_between(milliseconds, start, end));
}

CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end)
{
	CALL(" from event %d to %d", start->id, end->id);
	return (time_between(milliseconds, start, end));
}

static int run_wait(struct op *o, CUcontext c)
{
	pthread_mutex_lock(&big);
	while (!o->point->done && !c->dead)
		pthread_cond_wait(&changed, &big);
	pthread_mutex_unlock(&big);
	return (0);
}

static void end_wait(struct op *o)
{
	let_go(o->point);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
	struct op *o;

	CALL(" stream %d for event %d, flags %u", stream->id, event->id, flags);
	CONTEXT(c);
	(void)c;
	if (!event->last)
		return (OK);
	o = new_op(run_wait);
	o->end = end_wait;
	pthread_mutex_lock(&big);
	o->point = event->last;
	o->point->refs++;
	pthread_mutex_unlock(&big);
	push(stream, o);
	return (OK);
}

/* Copies and sets: memory is mapped at its address. */
int run_copy(struct op *o, CUcontext c)
{
	const CUDA_MEMCPY3D *p = &o->copy;

	(void)c;
	for (size_t z = 0; z < p->depth; ++z)
		for (size_t y = 0; y < p->height; ++y)
			memmove((char *)p->dstDevice + p->dstPitch * (y + p->dstHeight * z), (char *)p->srcDevice + p->srcPitch * (y + p->srcHeight * z),
				p->width);
	return (0);
}

static CUresult push_copy(CUstream s, uint64_t dst, uint64_t src, size_t n)
{
	struct op *o = new_op(run_copy);

	o->copy = (CUDA_MEMCPY3D){ .dstDevice = dst, .srcDevice = src, .width = n, .height = 1, .depth = 1 };
	push(s, o);
	return (OK);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream)
{
	CALL(" %zu bytes from %#llx to %#llx in stream %d", n, src, dst, stream->id);
	CONTEXT(c);
	(void)c;
	return (push_copy(stream, dst, src, n));
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, void *src, size_t n, CUstream stream)
{
	CALL(" %zu bytes to %#llx in stream %d", n, dst, stream->id);
	CONTEXT(c);
	(void)c;
	return (push_copy(stream, dst, (uint64_t)src, n));
}

CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t n, CUstream stream)
{
	CALL(" %zu bytes from %#llx in stream %d", n, src, stream->id);
	CONTEXT(c);
	(void)c;
	return (push_copy(stream, (uint64_t)dst, src, n));
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *p, CUstream stream)
{
	struct op *o;

	CALL(" %zu x %zu x %zu from %#llx (%zu, %zu) to %#llx (%zu, %zu) in stream %d", p->width, p->height, p->depth, p->srcDevice, p->srcPitch,
	     p->srcHeight, p->dstDevice, p->dstPitch, p->dstHeight, stream->id);
	CONTEXT(c);
	(void)c;
	if (p->srcType != 4 || p->dstType != 4)
		return (INVALID_VALUE);
	o = new_op(run_copy);
	o->copy = *p;
	push(stream, o);
	return (OK);
}

int run_fill(struct op *o, CUcontext c)
{
	const CUDA_MEMSET_NODE_PARAMS *p = &o->fill;

	(void)c;
	for (size_t y = 0; y < p->height; ++y) {
		char *row = (char *)p->dst + p->pitch * y;

		if (p->elementSize == 1)
			memset(row, (int)p->value, p->width); /* most fills, and the longest */
		else
			for (size_t x = 0; x < p->width; ++x)
				memcpy(row + p->elementSize * x, &p->value, p->elementSize);
	}
	return (0);
}

static CUresult push_fill(CUstream s, uint64_t dst, size_t pitch, unsigned int value, unsigned int element, size_t width, size_t height)
{
	struct op *o;

	CONTEXT(c);
	(void)c;
	o = new_op(run_fill);
	o->fill = (CUDA_MEMSET_NODE_PARAMS){ dst, pitch, value, element, width, height };
	push(s, o);
	return (OK);
}

#define FILL(bits, type) \
	CUresult cuMemsetD##bits##Async(CUdeviceptr dst, type value, size_t n, CUstream stream) \
	{ \
		CALL(" %zu of %#x at %#llx in stream %d", n, value, dst, stream->id); \
		return (push_fill(stream, dst, 0, value, bits / 8, n, 1)); \
	} \
	CUresult cuMemsetD2D##bits##Async(CUdeviceptr dst, size_t pitch, type value, size_t width, size_t height, CUstream stream) \
	{ \
		CALL(" %zu x %zu of %#x at %#llx, pitch %zu, in stream %d", width, height, value, dst, pitch, stream->id); \
		return (push_fill(stream, dst, pitch, value, bits / 8, width, height)); \
	}

FILL(8, unsigned char)
FILL(16, unsigned short)
FILL(32, unsigned int)

int run_write(struct op *o, CUcontext c)
{
	(void)c;
	if (o->size == 4)
		__atomic_store_n((uint32_t *)o->fill.dst, (uint32_t)o->value, __ATOMIC_SEQ_CST);
	else
		__atomic_store_n((uint64_t *)o->fill.dst, o->value, __ATOMIC_SEQ_CST);
	return (0);
}

static CUresult write_value(CUstream s, uint64_t at, uint64_t value, int size)
{
	struct op *o;

	CONTEXT(c);
	(void)c;
	o = new_op(run_write);
	o->fill.dst = at;
	o->value = value;
	o->size = size;
	push(s, o);
	return (OK);
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr at, unsigned int value, unsigned int flags)
{
	CALL(" %#x at %#llx in stream %d, flags %u", value, at, stream->id, flags);
	return (write_value(stream, at, value, 4));
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr at, unsigned long long value, unsigned int flags)
{
	CALL(" %#llx at %#llx in stream %d, flags %u", value, at, stream->id, flags);
	return (write_value(stream, at, value, 8));
}
