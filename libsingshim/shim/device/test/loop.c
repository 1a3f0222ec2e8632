// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * transport.h over descriptor 3, message by message, for tests:
 *
 *	there: op, kind (0 call, 1 cached, 2 posted, 3 counted), comm, peer, length, message
 *	back:  result, length, answer; no bytes for a posted message
 */
#include "gen_abi.h"
#include "send.h"
#include "transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LOOP = 3 };

static void require_peer(int ok)
{
	if (!ok) {
		fprintf(stderr, "the other end is gone\n");
		exit(3);
	}
}

static void write_all(const void *from, size_t n)
{
	while (n > 0) {
		const ssize_t did = write(LOOP, from, n);

		require_peer(did > 0);
		from = (const char *)from + did;
		n -= (size_t)did;
	}
}

static void read_all(void *to, size_t n)
{
	while (n > 0) {
		const ssize_t did = read(LOOP, to, n);

		require_peer(did > 0);
		to = (char *)to + did;
		n -= (size_t)did;
	}
}

static void send_message(uint32_t op, uint32_t kind, uint64_t comm, int32_t peer, const void *message, uint64_t n)
{
	write_all(&op, 4);
	write_all(&kind, 4);
	write_all(&comm, 8);
	write_all(&peer, 4);
	write_all(&n, 8);
	write_all(message, n);
}

static int read_answer(void *answer, size_t room, size_t *got)
{
	int32_t result;
	uint64_t n;

	read_all(&result, 4);
	read_all(&n, 8);
	require_peer(n <= room);
	read_all(answer, n);
	*got = n;
	return result;
}

int sing_call(uint32_t op, const void *message, size_t n, void *answer, size_t room, size_t *got)
{
	send_message(op, 0, 0, -1, message, n);
	return read_answer(answer, room, got);
}

int sing_cached(uint32_t op, const void *message, size_t n, void *answer, size_t room, size_t *got)
{
	send_message(op, 1, 0, -1, message, n);
	return read_answer(answer, room, got);
}

int sing_post(uint32_t op, const void *message, size_t n)
{
	send_message(op, 2, 0, -1, message, n);
	return 0;
}

int sing_post_counted(uint32_t op, const void *counts, unsigned int k, const void *message, size_t n)
{
	(void)counts;
	send_message(op, 3, k, -1, message, n);
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

/* This transport has no place for a message in a ring. */
int sing_stage(struct ring_draft *d, struct ring_need need, size_t n, unsigned char **at)
{
	(void)d, (void)need, (void)n, (void)at;
	return SING_GONE;
}

int sing_refusal(uint32_t op, enum ring_result r)
{
	(void)op, (void)r;
	return SING_GONE;
}
