// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "data.h"

uint32_t random_word(uint32_t seed, uint32_t i)
{
	uint32_t x = i * 0x9e3779b1u + seed;

	x ^= x >> 16;
	x *= 0x85ebca6bu;
	x ^= x >> 13;
	x *= 0xc2b2ae35u;
	x ^= x >> 16;
	return (x);
}

float uniform(uint32_t seed, uint32_t i)
{
	return ((float)(random_word(seed, i) >> 8) / 8388608.0f - 1.0f);
}

uint64_t hash_bytes(uint64_t h, const void *p, size_t n)
{
	const unsigned char *b = p;

	for (size_t i = 0; i < n; ++i)
		h = (h ^ b[i]) * 0x100000001b3ull;
	return (h);
}
