// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "cache.h"

#include "../raw.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/*
 * SLOTS answers, and SPACE bytes for them: enough for the questions about devices, some of them in
 * several contexts, and about a few hundred streams. If an answer does not fit, the server is asked
 * each time.
 */
enum { SLOTS = 2048, SPACE = 1 << 20, LONGEST = 4096, TRIES = 16 };

struct entry {
	uint64_t context;
	uint32_t op, n, room, got;
	unsigned char bytes[]; /* the message, then the answer */
};

struct cache {
	_Atomic uint32_t used;
	_Atomic(struct entry *) slots[SLOTS];
	_Alignas(8) unsigned char space[SPACE];
};

static _Atomic(struct cache *) cache;

static uint32_t hash_call(uint32_t op, uint64_t context, const unsigned char *in, size_t n, size_t room)
{
	uint64_t h = (op ^ context * 0x9e3779b97f4a7c15ull) + room;

	while (n-- > 0)
		h = (h ^ *in++) * 0x100000001b3ull;
	return (uint32_t)(h ^ h >> 32);
}

static bool is_entry(const struct entry *e, uint32_t op, uint64_t context, const void *in, size_t n, size_t room)
{
	return e->op == op && e->context == context && e->n == n && e->room == room && (n == 0 || memcmp(e->bytes, in, n) == 0);
}

bool sing_cache_find(uint32_t op, uint64_t context, const void *in, size_t n, void *out, size_t room, size_t *got)
{
	struct cache *c = atomic_load_explicit(&cache, memory_order_acquire);

	if (c == NULL)
		return false;
	const uint32_t at = hash_call(op, context, in, n, room);

	for (uint32_t i = 0; i < TRIES; ++i) {
		const struct entry *e = atomic_load_explicit(&c->slots[(at + i) % SLOTS], memory_order_acquire);

		if (e == NULL)
			return false;
		if (!is_entry(e, op, context, in, n, room))
			continue;
		if (e->got > 0)
			memcpy(out, e->bytes + e->n, e->got);
		*got = e->got;
		return true;
	}
	return false;
}

static struct cache *get_cache(void)
{
	struct cache *c = atomic_load_explicit(&cache, memory_order_acquire), *none = NULL;

	if (c != NULL)
		return c;
	c = (struct cache *)raw6(SYS_mmap, 0, sizeof(*c), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if ((unsigned long)c > -4096UL)
		return NULL;
	if (atomic_compare_exchange_strong(&cache, &none, c))
		return c;
	(void)raw6(SYS_munmap, (long)c, sizeof(*c), 0, 0, 0, 0);
	return none;
}

void sing_cache_keep(uint32_t op, uint64_t context, const void *in, size_t n, const void *out, size_t room, size_t got)
{
	const size_t size = (sizeof(struct entry) + n + got + 7) / 8 * 8;
	struct cache *c = size <= LONGEST ? get_cache() : NULL;
	const uint32_t at = hash_call(op, context, in, n, room);
	struct entry *e, *none = NULL;
	uint32_t begin;

	if (c == NULL)
		return;
	begin = atomic_load(&c->used);
	do
		if (begin + size > SPACE)
			return;
	while (!atomic_compare_exchange_weak(&c->used, &begin, begin + (uint32_t)size));
	e = (struct entry *)(c->space + begin);
	*e = (struct entry){ .context = context, .op = op, .n = (uint32_t)n, .room = (uint32_t)room, .got = (uint32_t)got };
	if (n > 0)
		memcpy(e->bytes, in, n);
	if (got > 0)
		memcpy(e->bytes + n, out, got);
	/* Two threads may keep the same answer: that does no harm. */
	for (uint32_t i = 0; i < TRIES; ++i, none = NULL)
		if (atomic_compare_exchange_strong(&c->slots[(at + i) % SLOTS], &none, e))
			return;
}

void sing_cache_forget(void)
{
	atomic_store(&cache, NULL);
}
