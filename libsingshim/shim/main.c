// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* How the library starts in a process. */
#define _GNU_SOURCE
#include "list.h"
#include "next.h"
#include "place.h"
#include "raw.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/*
 * CRIU takes hold of a process by writing to the first of its mappings, by address, that is
 * executable. The kernel lets no process write to a mapping that is shared and read-only, as
 * just-in-time compilers have it (PHP's opcache, .NET). So the first is ours: a page that ends
 * where a program that is not position independent begins, so that hardly anything is below.
 */
#define FOOTHOLD 0x3f0000

static void make_foothold(void)
{
	(void)raw6(SYS_mmap, FOOTHOLD, 0x1000, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
}

/*
 * Everything that is not safe in a signal handler happens here, while there is a single thread:
 * the list is mapped and the next functions are looked up.
 */
__attribute__((constructor)) static void start_shim(void)
{
	const int e = errno;

	next_look_up();
	place_reset();
	list_open();
	make_foothold();
	/*
	 * Without this call a child would take the parent's buffers for busy: no harm but lost
	 * records.
	 */
	(void)pthread_atfork(NULL, NULL, place_reset);
	errno = e;
}
