// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * transport.h over the ring on descriptor 3, for a test: what it takes to put the two together. The
 * real one also says which context is current, keeps cached answers, tells counts apart
 * by peer, and has another way for messages that are longer than the ring's.
 */
#include "../../ring.h"

#include "gen_abi.h"
#include "transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(enum ring_result r)
{
	if (r != RING_OK) {
		fprintf(stderr, "the ring says %d\n", r);
		exit(3);
	}
}

__attribute__((constructor)) static void attach(void)
{
	if (ring_attach(3, NULL) != 0)
		exit(4);
}

static void stage(struct ring_draft *d, struct ring_need need, const void *in, size_t n)
{
	need.size = n < SING_SIZE_MAX ? (uint32_t)n : SING_SIZE_MAX;
	need.bulk = (uint32_t)n - need.size;
	must(ring_stage(d, &need));
	if (need.size > 0)
		memcpy(d->args, in, need.size);
	if (need.bulk > 0)
		memcpy(d->bulk, (const char *)in + need.size, need.bulk);
}

int sing_call(uint32_t op, const void *in, size_t n, void *out, size_t room, size_t *got)
{
	struct ring_draft d;
	int r;

	stage(&d, (struct ring_need){ .op = op, .call = true, .room = (uint32_t)room }, in, n);
	must(ring_call(&d));
	r = d.status;
	*got = d.length;
	if (d.length > 0)
		memcpy(out, d.args, d.length);
	ring_done(&d);
	return r;
}

int sing_cached(uint32_t op, const void *in, size_t n, void *out, size_t room, size_t *got)
{
	return sing_call(op, in, n, out, room, got);
}

int sing_post(uint32_t op, const void *in, size_t n)
{
	struct ring_draft d;

	stage(&d, (struct ring_need){ .op = op }, in, n);
	must(ring_post(&d));
	return 0;
}

int sing_post_counted(uint32_t op, uint64_t comm, int peer, const void *in, size_t n)
{
	const struct sing_count count = { .key = comm, .n = 1 };
	struct ring_draft d;

	(void)peer;
	stage(&d, (struct ring_need){ .op = op, .counts = 1, .count = &count }, in, n);
	must(ring_post(&d));
	return 0;
}

uint64_t sing_handle_new(enum sing_class class)
{
	static uint64_t last = 2;

	return (uint64_t)class << 32 | ++last;
}

void sing_handle_drop(enum sing_class class, uint64_t handle)
{
	(void)class;
	(void)handle;
}

void sing_missed(const char *symbol, const char *why)
{
	printf("missed %s: %s\n", symbol, why);
}
