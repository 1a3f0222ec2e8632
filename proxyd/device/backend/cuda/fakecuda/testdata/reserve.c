// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "fake.h"

#include <sys/mman.h>

/* Where a thread's last reservation is. A real driver reserves addresses for each context, and leaves their place to mmap. */
static _Atomic uintptr_t last;

void *fake_reserve(size_t n)
{
	void *const at = mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	last = (uintptr_t)at;
	return (at);
}

uintptr_t fake_last_reserved(void)
{
	return (last);
}
