// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "next.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>

static const char *const names[] = {
#define X(name, result, parameters) #name,
	SING_NEXT(X)
#undef X
};

static void *_Atomic found[NEXT_COUNT];

/* In place of a function that this libc does not have; all of ours fail with -1. */
static int fail_missing(void)
{
	errno = ENOSYS;
	return (-1);
}

static void *look_up(enum next_name name)
{
	void *f = dlsym(RTLD_NEXT, names[name]);

	/* A program that asks dlerror later must not find our failure there. */
	if (!f)
		dlerror();

	return (f ? f : (void *)fail_missing);
}

void next_look_up(void)
{
	for (int i = 0; i < NEXT_COUNT; i++)
		atomic_store_explicit(&found[i], look_up((enum next_name)i), memory_order_relaxed);
}

void *next_find(enum next_name name)
{
	void *f = atomic_load_explicit(&found[name], memory_order_relaxed);

	if (!f) {
		f = look_up(name);
		atomic_store_explicit(&found[name], f, memory_order_relaxed);
	}

	return (f);
}
