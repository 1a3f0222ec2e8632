// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Memory that a process allocates at the first use. Variables of that size would be mapped in each process of a job from
 * its start, and copied by each fork.
 */
#ifndef SING_SHIM_PAGES_H
#define SING_SHIM_PAGES_H

#include "raw.h"

#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/*
 * The memory that *at points to, size bytes, zero at first; or NULL if the kernel has no memory. If two threads come first
 * at the same time, both get the memory of one of them. Safe in signal handlers.
 */
static inline void *pages_get(void *_Atomic *at, size_t size)
{
	void *now = atomic_load_explicit(at, memory_order_acquire);
	long new;

	if (now)
		return (now);
	new = raw6(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if ((unsigned long)new > -4096UL)
		return (NULL);
	if (atomic_compare_exchange_strong(at, &now, (void *)new))
		return ((void *)new);
	raw6(SYS_munmap, new, (long)size, 0, 0, 0, 0);

	return (now);
}

#endif
