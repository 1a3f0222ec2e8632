// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * How the process is connected to its device server: once, at the first call that needs the server. A child of
 * fork never uses its parent's ring. Whether CUDA was initialised is remembered beside the connection, because
 * a child must know that too.
 */
#ifndef SING_DEVICE_ATTACH_H
#define SING_DEVICE_ATTACH_H

#include <stdbool.h>

enum sing_attachment {
	SING_ATTACHED,
	SING_FORKED,   /* CUDA was initialised before the fork: CUDA cannot be initialised in this process */
	SING_NOWHERE,  /* there is no device server */
	SING_UNHEARD,  /* there should be a server: the reason was printed on the standard error */
};

/*
 * Get a ring, if the process has no ring yet. A failure is tried again at the next call. Any thread may call
 * this at any time.
 */
enum sing_attachment sing_attach(void);

/* Whether there is a ring of this process. The ring may be closed. */
bool sing_is_attached(void);

/* Whether the server reads and writes this process's memory. */
bool sing_is_reachable(void);

/* Note that CUDA is now initialised in this process; tell whether it is. */
void sing_initialized(void);
bool sing_is_initialized(void);

/* Whether CUDA was initialised before a fork. */
bool sing_is_forked(void);

/* Print a line on the standard error. */
void sing_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
