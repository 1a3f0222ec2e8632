// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "stub.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void round_trip(void)
{
	static struct message m;

	message_begin(&m, "join");
	message_add(&m, "version", "1");
	message_add(&m, "cwd", "/a=b\nc");
	message_add(&m, "key", "");
	message_add_number(&m, "job", 4294967295UL);
	CHECK(message_valid(&m));
	CHECK(strcmp(message_verb(&m), "join") == 0);
	CHECK(strcmp(message_get(&m, "cwd"), "/a=b\nc") == 0);
	CHECK(strcmp(message_get(&m, "key"), "") == 0);
	CHECK(strcmp(message_get(&m, "job"), "4294967295") == 0);
	CHECK(!message_get(&m, "jo") && !message_get(&m, "jobs") && !message_get(&m, "join"));
	CHECK(m.used == sizeof("join\0version=1\0cwd=/a=b\nc\0key=\0job=4294967295"));
}

static void too_long(void)
{
	static struct message m;
	static char value[SING_PACKET_SIZE];

	memset(value, 'x', sizeof(value) - 1);
	message_begin(&m, "join");
	message_add(&m, "a", value);
	CHECK(m.overflow && !message_valid(&m));
	value[sizeof(value) - sizeof("join") - sizeof("a=")] = '\0';
	message_begin(&m, "join");
	message_add(&m, "a", value);
	CHECK(!m.overflow && message_valid(&m) && m.used == sizeof(m.bytes));
	message_add(&m, "b", "");
	CHECK(m.overflow);
}

static bool is_valid(const char *bytes, size_t n)
{
	static struct message m;

	memcpy(m.bytes, bytes, n);
	m.used = n;
	m.overflow = false;

	return (message_valid(&m));
}

static void test_malformed(void)
{
	static char many[SING_PACKET_SIZE];
	size_t n = 3;

	CHECK(is_valid("ok", 3) && is_valid("ok\0a=1\0b=2", 11));
	CHECK(!is_valid("", 0) && !is_valid("", 1) && !is_valid("ok", 2) && !is_valid("ok\0a=1", 6));
	CHECK(!is_valid("\0a=1", 5) && !is_valid("ok\0a", 5) && !is_valid("ok\0=1", 6) && !is_valid("ok\0", 4));
	CHECK(!is_valid("ok\0a=1\0a=2", 11) && !is_valid("ok\0a=1\0b=1\0a=1", 15));
	memcpy(many, "ok", 3);
	for (int i = 0; i <= SING_PACKET_KEYS; ++i) {
		CHECK(is_valid(many, n) == true);
		n += (size_t)sprintf(many + n, "k%d=", i) + 1;
	}
	CHECK(!is_valid(many, n));
}

/* For any input, no byte beyond the end is read: the sanitizers would report that. */
static void test_random_bytes(void)
{
	static const char seed[] = "ok\0mode=fresh\0name=batch\0env.A=1\0reason=x";
	static struct message m;
	const unsigned int start = (unsigned int)(getenv("SEED") ? atol(getenv("SEED")) : 20261120);

	srand(start);
	for (int i = 0; i < 200000; ++i) {
		struct message *tight;

		m.used = (size_t)rand() % sizeof(seed);
		m.overflow = false;
		memcpy(m.bytes, seed, m.used);
		for (int n = rand() % 6; n > 0 && m.used > 0; --n)
			m.bytes[(size_t)rand() % m.used] = (char)(rand() % 5 ? "=\0aok."[rand() % 6] : rand());
		/* Copy the bytes to the end of a block of memory of their own. */
		tight = malloc(offsetof(struct message, bytes) + (m.used ? m.used : 1));
		memcpy(tight, &m, offsetof(struct message, bytes) + m.used);
		if (message_valid(tight)) {
			size_t keys = 0;

			for (const char *at = message_next(tight, NULL); at; at = message_next(tight, at)) {
				char key[64];

				snprintf(key, sizeof(key), "%.*s", (int)(strchr(at, '=') - at), at);
				if (message_get(tight, key) != strchr(at, '=') + 1)
					errx(1, "seed %u, round %d: key %zu is not found", start, i, keys);
				++keys;
			}
		}
		free(tight);
	}
}

const struct test message_tests[] = {
	{ "message there and back", round_trip },
	{ "message too long", too_long },
	{ "message malformed", test_malformed },
	{ "message fuzzed", test_random_bytes },
	{ NULL, NULL },
};
