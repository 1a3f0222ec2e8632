// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "seen.h"

#include "pages.h"

#include <string.h>

/*
 * A single key per place, the latest wins. No locks: a place is a single word, and a key that
 * is overwritten only means that something is recorded twice. After fork the table is the
 * child's own, with what the parent has recorded, which is right.
 */
enum { PLACES = 4096 };
static void *_Atomic places;

/* The place of a key, or NULL. Without memory for places all is recorded each time. */
static _Atomic uint64_t *find_place(uint64_t key)
{
	_Atomic uint64_t *const all = pages_get(&places, PLACES * sizeof(*all));

	return (all ? &all[key % PLACES] : NULL);
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

uint64_t seen_key(enum act act, struct span path, struct span other)
{
	uint64_t h = mix_word(list_epoch() << 8 | act, 0x5349u);

	h = hash_span(h, path);
	if (other.n)
		h = hash_span(h, other);
	h = mix_word(h, h >> 29);

	return (h ? h : 1);
}

bool seen_has(uint64_t key)
{
	_Atomic uint64_t *const place = find_place(key);

	return (place && atomic_load_explicit(place, memory_order_relaxed) == key);
}

void seen_add(uint64_t key)
{
	_Atomic uint64_t *const place = find_place(key);

	if (place)
		atomic_store_explicit(place, key, memory_order_relaxed);
}

void seen_drop(uint64_t key)
{
	_Atomic uint64_t *const place = find_place(key);

	if (place && atomic_load_explicit(place, memory_order_relaxed) == key)
		atomic_store_explicit(place, 0, memory_order_relaxed);
}
