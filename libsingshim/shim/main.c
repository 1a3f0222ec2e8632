// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* How the library starts in a process. */
#define _GNU_SOURCE
#include "list.h"
#include "absolute_path.h"
#include "raw.h"

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

/*
 * The compiler's start files define this handle of a library, by which libc knows which library registered a
 * function.
 */
#ifdef SING_NO_START_FILES
__attribute__((visibility("hidden"))) void *__dso_handle = &__dso_handle;
#endif

static void make_foothold(void)
{
	(void)raw6(SYS_mmap, FOOTHOLD, 0x1000, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
}

/*
 * Map the list here, while there is a single thread: mapping is not safe in a signal handler, and a
 * program may later have lost the right to open the list. All else waits until a process needs it:
 * each process of a job starts with this, and most of them are short. errno is not changed, and not
 * even read, for that would call a function of libc, and the loader looks up each such function.
 * libc passes the arguments of main to constructors.
 */
__attribute__((constructor)) static void start_shim(int argc, char **argv, char **environment)
{
	(void)argc;
	(void)argv;
	list_open(environment);
	make_foothold();
	/*
	 * Without this call a child of fork would keep the buffers busy that threads of its parent
	 * used: records would be lost, with no other harm.
	 */
	(void)pthread_atfork(NULL, NULL, absolute_path_reset);
}
