// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "load.h"

/* How the arguments of OP_CHECK and OP_ECHO begin. */
struct header {
	uint64_t thread, number, seed;
};

uint64_t next(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;

	return (x ^ x >> 31);
}

static void fill_random(uint64_t *state, unsigned char *at, size_t n)
{
	for (; n >= 8; at += 8, n -= 8) {
		const uint64_t x = next(state);

		memcpy(at, &x, 8);
	}
	const uint64_t x = next(state);
	memcpy(at, &x, n);
}

/* Most messages are small, some are as large as can be. */
static uint32_t draw_length(uint64_t *state, uint32_t most)
{
	const uint64_t x = next(state);

	return ((uint32_t)(x >> 8) % (x % 100 < 90 ? 160 : x % 100 < 99 ? 4096 : most));
}

static enum ring_result check_or_echo(uint64_t thread, uint64_t number, uint64_t *state)
{
	const bool call = next(state) % 4 == 0;
	struct header h = { thread, number, next(state) };
	struct ring_need need = { .op = call ? OP_ECHO : OP_CHECK, .call = call };
	uint64_t bytes = h.seed;
	struct ring_draft d;
	enum ring_result rv;

	need.size = (uint32_t)sizeof(h) + draw_length(state, SING_SIZE_MAX - sizeof(h));
	if (call)
		need.room = need.size - (uint32_t)sizeof(h);
	else
		need.bulk = next(state) % 8 ? 0 : draw_length(state, 400000);
	rv = ring_stage(&d, &need);
	if (rv != RING_OK)
		return (rv);
	memcpy(d.args, &h, sizeof(h));
	fill_random(&bytes, (unsigned char *)d.args + sizeof(h), need.size - sizeof(h));
	fill_random(&bytes, d.bulk, need.bulk);
	if (!call)
		return (ring_post(&d));

	unsigned char *sent = malloc(need.room + 1);

	memcpy(sent, (unsigned char *)d.args + sizeof(h), need.room);
	rv = ring_call(&d);
	if (rv == RING_OK) {
		CHECK(d.length == need.room && d.status == (int32_t)number);
		for (uint32_t i = 0; i < d.length; i++)
			CHECK(((unsigned char *)d.args)[i] == sent[need.room - 1 - i]);
		ring_done(&d);
	}
	free(sent);

	return (rv);
}

enum ring_result say(uint32_t op, bool call, uint64_t value)
{
	struct ring_need need = { .op = op, .call = call, .size = sizeof(value) };
	struct ring_draft d;
	enum ring_result rv;

	errno = 77;
	rv = ring_stage(&d, &need);
	if (rv == RING_OK) {
		memcpy(d.args, &value, sizeof(value));
		rv = call ? ring_call(&d) : ring_post(&d);
		if (call && rv == RING_OK)
			ring_done(&d);
	}
	CHECK(errno == 77);

	return (rv);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t stamp;

static enum ring_result say_stamp(void)
{
	enum ring_result rv;

	pthread_mutex_lock(&lock);
	rv = say(OP_STAMP, false, ++stamp);
	pthread_mutex_unlock(&lock);

	return (rv);
}

_Atomic bool enough;

/*
 * Each thread has its own numbers; sometimes it takes a number that all threads share.
 */
void *burst(void *arg)
{
	const uint64_t thread = (uint64_t)(uintptr_t)arg;
	uint64_t state = seed + thread * 7919;
	enum ring_result rv = RING_OK;

	for (uint64_t i = 0; (!messages || i < messages) && rv == RING_OK && !atomic_load(&enough); i++) {
		rv = check_or_echo(thread, i, &state);
		if (rv == RING_OK && next(&state) % 8 == 0)
			rv = say_stamp();
	}

	return ((void *)(uintptr_t)rv);
}

/* A thread for each message, in turn, more threads than there are lanes. */
void *brief(void *arg)
{
	return ((void *)(uintptr_t)say(OP_SINK, (uintptr_t)arg % 2, (uintptr_t)arg));
}

void *counted(void *arg)
{
	const uint64_t thread = (uint64_t)(uintptr_t)arg;
	enum ring_result rv = RING_OK;

	for (uint64_t i = 0; (!messages || i < messages) && rv == RING_OK; i++) {
		const struct sing_count count[2] = { { .key = 1000 + thread, .n = 1 }, { .key = 7, .n = 2 } };
		struct ring_need need = { .op = OP_COUNT, .size = sizeof(i), .counts = 2, .count = count };
		struct ring_draft d;

		rv = ring_stage(&d, &need);
		if (rv == RING_OK) {
			memcpy(d.args, &i, sizeof(i));
			rv = ring_post(&d);
		}
	}

	return ((void *)(uintptr_t)rv);
}

/* A thread that is not counted, and further threads that are. */
void *mixed(void *arg)
{
	return (arg ? counted(arg) : burst(arg));
}

/* A call that waits, and further calls that wait for room. */
void *stuck(void *arg)
{
	enum ring_result rv = arg ? RING_OK : say(OP_HOLD, true, 0);

	while (rv == RING_OK)
		rv = say(OP_SINK, false, 0);

	return ((void *)(uintptr_t)rv);
}

/* Calls with answers that come in any order. */
void *late(void *arg)
{
	for (uint32_t i = 0; i < messages; i++) {
		const struct ring_need need = { .op = OP_HOLD, .call = true, .size = 8, .room = 8 };
		const uint64_t value = (uintptr_t)arg << 20 | i;
		struct ring_draft d;

		CHECK(ring_stage(&d, &need) == RING_OK);
		memcpy(d.args, &value, 8);
		CHECK(ring_call(&d) == RING_OK);
		CHECK(d.status == (int32_t)value && d.length == 8 && !memcmp(d.args, &value, 8));
		ring_done(&d);
		CHECK(say(OP_SINK, false, i) == RING_OK);
	}

	return (NULL);
}

pthread_barrier_t all;

/* A burst of threads that end together, so that each of them has a lane of its own. */
void *together(void *arg)
{
	void *rv = burst(arg);

	pthread_barrier_wait(&all);

	return (rv);
}

/* Several calls at a time, as many as there are lanes for. */
void *several(void *arg)
{
	const struct ring_need need = { .op = OP_SINK, .call = true, .size = 8 };
	struct ring_draft d[4];
	unsigned int asked = 0, awaited = 0;

	(void)arg;
	pthread_barrier_wait(&all);
	while (awaited < messages) {
		enum ring_result rv = RING_BUSY;

		if (asked < messages && asked - awaited < 4)
			rv = ring_stage(&d[asked % 4], &need);
		if (rv == RING_OK) {
			memset(d[asked % 4].args, 0, 8);
			CHECK(ring_ask(&d[asked++ % 4]) == RING_OK);
		} else {
			CHECK(rv == RING_BUSY && asked > awaited);
			CHECK(ring_await(&d[awaited % 4]) == RING_OK);
			ring_done(&d[awaited++ % 4]);
		}
	}

	return (NULL);
}
