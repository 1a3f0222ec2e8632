// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "recorded.h"

#include "pages.h"

#include <string.h>

/*
 * A place holds a single key, the latest. There are no locks: a place is a single word, and if a
 * key is overwritten, its act is only recorded twice. After fork the child has a copy of the table:
 * the parent's records count for the child as well.
 */
enum { PLACES = 4096, SHORTCUTS = 256 };

/*
 * A shortcut leads from a path as a program gives it to a key (recorded.h: recorded_given). The two fields are written without a
 * lock. If a thread reads one field before and one field after another shortcut was written, the result is a number that
 * is no key.
 */
struct shortcut {
	_Atomic uint64_t given;
	_Atomic uint64_t key; /* the key, exclusive or given */
};

struct memory {
	_Atomic uint64_t places[PLACES];
	struct shortcut shortcuts[SHORTCUTS];
};
static void *_Atomic memory;

/* Without memory every act is recorded each time. */
static struct memory *get_memory(void)
{
	return (pages_get(&memory, sizeof(struct memory)));
}

static uint64_t mix_word(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9E3779B97F4A7C15u;
	return (h ^ h >> 32);
}

static uint64_t hash_span(uint64_t h, struct span s)
{
	uint64_t v;

	for (; s.n >= 8; s.at += 8, s.n -= 8) {
		memcpy(&v, s.at, 8);
		h = mix_word(h, v);
	}
	v = s.n;
	while (s.n)
		v = v << 8 | (unsigned char)s.at[--s.n];

	return (mix_word(h, v));
}

uint64_t recorded_key(enum act act, struct span path, struct span other)
{
	uint64_t h = mix_word(list_epoch() << 8 | act, 0x5349u);

	h = hash_span(h, path);
	if (other.n)
		h = hash_span(h, other);
	h = mix_word(h, h >> 29);

	return (h ? h : 1);
}

bool recorded_has(uint64_t key)
{
	const struct memory *const m = get_memory();

	return (m && atomic_load_explicit(&m->places[key % PLACES], memory_order_relaxed) == key);
}

void recorded_add(uint64_t key)
{
	struct memory *const m = get_memory();

	if (m)
		atomic_store_explicit(&m->places[key % PLACES], key, memory_order_relaxed);
}

void recorded_drop(uint64_t key)
{
	if (recorded_has(key))
		atomic_store_explicit(&get_memory()->places[key % PLACES], 0, memory_order_relaxed);
}

uint64_t recorded_given(enum act act, uint64_t moves, const char *path)
{
	/*
	 * Each number is mixed in before the next: else different bytes of the path could cancel a different
	 * number.
	 */
	const uint64_t h = mix_word(mix_word(list_epoch() << 8 | act, 0x4757u), moves);

	return (hash_span(h, (struct span){ path, strlen(path) }));
}

void recorded_note(uint64_t given, uint64_t key)
{
	struct memory *const m = get_memory();
	struct shortcut *s;

	if (!m)
		return;
	s = &m->shortcuts[given % SHORTCUTS];
	atomic_store_explicit(&s->given, given, memory_order_relaxed);
	atomic_store_explicit(&s->key, given ^ key, memory_order_relaxed);
}

bool recorded_is_given(uint64_t given)
{
	const struct memory *const m = get_memory();
	const struct shortcut *s;

	if (!m)
		return (false);
	s = &m->shortcuts[given % SHORTCUTS];

	return (atomic_load_explicit(&s->given, memory_order_relaxed) == given &&
		recorded_has(given ^ atomic_load_explicit(&s->key, memory_order_relaxed)));
}
