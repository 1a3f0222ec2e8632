// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Numbers that look random and are the same on every machine, and a hash. */
#ifndef DATA_H
#define DATA_H

#include <stddef.h>
#include <stdint.h>

/* Number i of a seed: all 32 bits are good. */
uint32_t random_word(uint32_t seed, uint32_t i);

/* Number i of a seed, from -1 to 1; fill_uniform in elements.ptx makes the same. */
float uniform(uint32_t seed, uint32_t i);

/* 64-bit FNV-1a, going on from h; HASH_BEGIN is the first h. */
#define HASH_BEGIN 0xcbf29ce484222325ull
uint64_t hash_bytes(uint64_t h, const void *p, size_t n);

#endif
