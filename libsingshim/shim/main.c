// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* How the library starts in a process. */
#include "list.h"
#include "next.h"
#include "place.h"

#include <errno.h>
#include <pthread.h>

/*
 * Everything that is not safe in a signal handler happens here, while there is one
 * thread: the list is mapped and the next functions are looked up.
 */
__attribute__((constructor)) static void start(void)
{
	const int e = errno;

	next_look_up();
	place_reset();
	list_open();
	/* Without it a child would take the parent's buffers for busy: no harm but lost records. */
	(void)pthread_atfork(NULL, NULL, place_reset);
	errno = e;
}
