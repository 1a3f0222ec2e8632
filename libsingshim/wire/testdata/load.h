// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* The declarations that the parts of load.c share. */
#ifndef SING_LOAD_H
#define SING_LOAD_H

#include "../../shim/ring.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Operations that the other end knows. */
enum {
	OP_CHECK = 1, /* arguments: header and random bytes; the bulk goes on with them */
	OP_ECHO = 2,  /* a call: the same, and the answer has the bytes in reverse order */
	OP_STAMP = 3, /* arguments: a number that grows from message to message */
	OP_COUNT = 4,
	OP_HOLD = 5, /* a call that the other end answers at any later time */
	OP_PING = 6, /* a call that is answered at once */
	OP_SINK = 7,
};

#define CHECK(x)                                                                                 \
	do {                                                                                     \
		if (!(x)) {                                                                      \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);                  \
			abort();                                                                 \
		}                                                                                \
	} while (0)

extern uint64_t seed;
extern char *raw_ring; /* mapped a second time, for processes that write nonsense */
extern unsigned int threads, messages;
extern _Atomic bool enough; /* burst ends */
extern pthread_barrier_t all; /* several begins, together ends */

uint64_t next(uint64_t *state);
enum ring_result say(uint32_t op, bool call, uint64_t value);

/* The bodies of threads, in load_say.c. */
void *burst(void *arg);
void *brief(void *arg);
void *counted(void *arg);
void *mixed(void *arg);
void *stuck(void *arg);
void *late(void *arg);
void *several(void *arg);
void *together(void *arg);

/* Threads that are interrupted, cancelled or write nonsense, in load_odd.c. */
extern _Atomic uint64_t interrupted; /* how many handlers ran */
void interrupt(int signal);
void *burst_aside(void *arg);
void *interrupter(void *arg);
void *scribbler(void *arg);
void *victim(void *arg);
void *leaver(void *arg);
void jump(int signal);
void abandon(void);
void forks(void);

#endif
