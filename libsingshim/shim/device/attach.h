// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * How the process is connected to its device server: not before it needs that, once, and a child of fork
 * never by its parent's ring. Whether CUDA was initialised is remembered beside it, for a child must know too.
 */
#ifndef SING_DEVICE_ATTACH_H
#define SING_DEVICE_ATTACH_H

#include <stdbool.h>

enum sing_attachment {
	SING_ATTACHED,
	SING_FORKED,   /* CUDA was initialised before the fork: in this process it never can be */
	SING_NOWHERE,  /* there is no device server */
	SING_UNHEARD,  /* there should be one: what is wrong was said on the standard error */
};

/* Get a ring, if there is none yet. A failure is tried again at the next call. Any thread may call it at any time. */
enum sing_attachment sing_attach(void);

/* Whether there is a ring of this process. It may be closed. */
bool sing_is_attached(void);

/* Whether the server reads and writes this process's memory. */
bool sing_is_reachable(void);

/* CUDA is initialised now, in this process; whether it is. */
void sing_initialized(void);
bool sing_is_initialized(void);

/* Whether it was before a fork. */
bool sing_is_forked(void);

/* Say something on the standard error, in one line. */
void sing_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
