// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Which thread has which lane of the ring. */
#ifndef SING_SHIM_THREAD_LANE_H
#define SING_SHIM_THREAD_LANE_H

#include "ring.h"

#include <sys/syscall.h>

/* The process's end of the ring. */
struct ring_end {
	struct sing_ring *at;
	/*
	 * A page that a child of fork finds empty, by any kind of fork: the ring is not mapped
	 * there, and is not the child's own.
	 */
	_Atomic uint64_t *mine;
	bool (*alive)(void);
};
extern struct ring_end ring_end;

static inline bool ring_is_mine(void)
{
	return (atomic_load_explicit(ring_end.mine, memory_order_relaxed));
}

static inline struct sing_lane *ring_lane(unsigned int i)
{
	return ((struct sing_lane *)((char *)ring_end.at + SING_LANES_AT) + i);
}

/* Whether the server is there, or may come. */
bool ring_is_served(void);

/* Make the server look at the ring. */
void ring_nudge(void);

static inline bool ring_is_closed(void)
{
	return (atomic_load_explicit(&ring_end.at->order, memory_order_acquire) & SING_CLOSED);
}

/* Called once, when there is a ring. Returns 0 or an errno. */
int thread_lane_start(void);

/*
 * A lane for a message: the calling thread's own, or for a moment *moment, if the thread is in
 * the middle of another message or there are too many threads. NULL: the ring was closed, or
 * the thread has asked calls and may not wait for another lane.
 */
struct thread_lane *thread_lane_take(struct thread_lane *moment);

/* This thread has asked "more" calls more. */
void thread_lane_asks(int more);

/* The message is over, its lane goes on at s->tail. */
void thread_lane_give(struct thread_lane *s);

#endif
