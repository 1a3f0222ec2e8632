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
	bool variables;	 /* of code: managed memory that goes with the code */
	uint64_t context;
	int device;
	uint64_t id;
};

/* Whether all of n bytes at an address are pinned; then *what (what may be NULL) is the pinned memory that has them. */
bool sing_is_pinned(uintptr_t at, size_t n, struct sing_pinned *what);

/*
 * Allocate pinned memory for managed.c, shared with the server, or return CUDA_ERROR_NOT_SUPPORTED; free it, once the work that may
 * use the memory is done.
 */
int sing_pinned_allocate(uintptr_t *at, size_t n);
int sing_pinned_free(const struct sing_pinned *what);

/* The same for variables of code, which belong to no context: the caller knows that no work uses memory that is freed. */
int sing_pinned_allocate_variables(uintptr_t *at, size_t n);
void sing_pinned_free_variables(uintptr_t at);

#endif
