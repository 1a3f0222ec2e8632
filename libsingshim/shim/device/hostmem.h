// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Memory of the program that is pinned: allocated so, or registered. */
#ifndef SING_DEVICE_HOSTMEM_H
#define SING_DEVICE_HOSTMEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sing_pinned {
	uintptr_t begin;
	size_t n;
	unsigned int flags;
	bool registered; /* the memory was the program's before */
	bool shared;	 /* the server has mapped the memory: kernels may follow its addresses */
	bool managed;	 /* the program has it as managed memory */
	uint64_t context;
	int device;
	uint64_t id;
};

/* Whether all of n bytes there are pinned; then *what, if what is not NULL, is what they belong to. */
bool sing_is_pinned(uintptr_t at, size_t n, struct sing_pinned *what);

/*
 * Pinned memory for managed.c, shared with the server, or CUDA_ERROR_NOT_SUPPORTED; and its end, which waits for work that may use the
 * memory.
 */
int sing_pinned_allocate(uintptr_t *at, size_t n);
int sing_pinned_free(const struct sing_pinned *what);

#endif
