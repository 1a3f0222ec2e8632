// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "thread_lane.h"

#include "raw.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

/* Lanes that no thread keeps: for handlers, and for threads that find no lane of their own. */
enum { MOMENTARY = 16 };

enum { PATIENCE = 16384 };

static _Thread_local struct thread_lane own __attribute__((tls_model("initial-exec")));
static pthread_key_t key;

static uint32_t thread_id(void)
{
	return ((uint32_t)raw6(SYS_gettid, 0, 0, 0, 0, 0, 0));
}

static bool is_dead(uint32_t thread)
{
	return (raw6(SYS_tgkill, raw6(SYS_getpid, 0, 0, 0, 0, 0, 0), (long)thread, 0, 0, 0, 0) == -ESRCH);
}

/*
 * Only the server can tell which message of this lane was put into the order last: so the server
 * settles the lane.
 */
static void leave_lane(struct sing_lane *lane, uint32_t thread)
{
	uint32_t state = thread;

	if (!atomic_compare_exchange_strong(&lane->state, &state, thread | SING_LEFT))
		return;
	atomic_fetch_add(&ring_end.at->left, 1);
	ring_nudge();
}

/* Leave the lanes that belong to this thread, and that the thread does not use any more. */
static void leave_all(uint32_t thread)
{
	for (unsigned int i = 0; i < SING_LANES; i++)
		if (atomic_load_explicit(&ring_lane(i)->state, memory_order_relaxed) == thread)
			leave_lane(ring_lane(i), thread);
}

/* Leave the lanes of threads that ended by the bare system call, without running the destructor. */
static void leave_dead_lanes(void)
{
	for (unsigned int i = 0; i < SING_LANES; i++) {
		const uint32_t thread = atomic_load_explicit(&ring_lane(i)->state, memory_order_relaxed);

		if (thread && !(thread & SING_LEFT) && is_dead(thread))
			leave_lane(ring_lane(i), thread);
	}
}

/*
 * Take the free lane i. The frame is not touched, not even for a moment: a handler must not
 * find the thread's lane to be free.
 */
static bool take_lane(struct thread_lane *s, unsigned int i, uint32_t thread)
{
	struct sing_lane *lane = ring_lane(i);
	uint32_t state = 0;

	if (atomic_load_explicit(&lane->state, memory_order_relaxed) ||
	    !atomic_compare_exchange_strong(&lane->state, &state, thread))
		return (false);
	s->bytes = (char *)ring_end.at + (size_t)SING_UNIT * (SING_FIRST_UNIT + (size_t)i * SING_LANE_UNITS);
	s->unit = SING_FIRST_UNIT + i * SING_LANE_UNITS;
	s->tail = atomic_load_explicit(&lane->tail, memory_order_relaxed) & SING_POSITION;
	s->head = atomic_load_explicit(&lane->head, memory_order_acquire) >> 1;
	s->thread = thread;
	s->patience = PATIENCE;
	s->lane = lane;

	return (true);
}

static void give_back(struct thread_lane *s)
{
	atomic_store_explicit(&s->lane->tail, s->tail, memory_order_relaxed);
	atomic_store_explicit(&s->lane->state, 0, memory_order_release);
	s->lane = NULL;
}

static struct thread_lane *take_moment(struct thread_lane *moment, bool nested)
{
	const uint32_t thread = thread_id();
	const struct timespec t = { .tv_nsec = 1000000 };

	moment->nested = nested;
	for (;;) {
		const uint32_t freed = atomic_load_explicit(&ring_end.at->freed, memory_order_acquire);

		for (unsigned int i = SING_LANES; i--;)
			if (take_lane(moment, i, thread))
				return (moment);
		leave_dead_lanes();
		if (own.asked)
			return (NULL); /* threads may wait for each other's lanes */
		if (ring_is_closed() || !ring_is_served())
			return (NULL);
		/*
		 * FUTEX_WAIT. A thread that gives back its own lane wakes no waiter, so look again
		 * soon.
		 */
		raw6(SYS_futex, (long)&ring_end.at->freed, 0, (long)freed, (long)&t, 0, 0);
	}
}

/* More lanes than a thread can have: several calls that were asked, and handlers in each other. */
enum { MANY = 12 };

static bool has_many(uint32_t thread)
{
	int n = 0;

	for (unsigned int i = 0; i < SING_LANES; i++)
		n += atomic_load_explicit(&ring_lane(i)->state, memory_order_relaxed) == thread;

	return (n >= MANY);
}

/*
 * Whether the thread has left its message by siglongjmp: the sender of the message cannot have
 * called a function with a frame above its own, or at the same place, except by a handler on a
 * stack of its own, or as the next call of several that were asked. If this frame is below the
 * sender's, this test cannot tell; then the lane is lost, until the thread has lost many.
 */
static bool is_abandoned(const char *frame)
{
	stack_t alt;

	if (has_many(thread_id()))
		return (true);

	if (frame < own.frame || (own.asked && frame == own.frame))
		return (false);

	return (raw6(SYS_sigaltstack, 0, (long)&alt, 0, 0, 0, 0) || !(alt.ss_flags & SS_ONSTACK));
}

static void end_thread(void *held)
{
	struct thread_lane *s = held;

	if (!s->lane || !ring_is_mine())
		return;
	if (s->frame)
		leave_lane(s->lane, s->thread);
	else
		give_back(s);
	s->lane = NULL;
	s->frame = NULL;
}

struct thread_lane *thread_lane_take(struct thread_lane *moment)
{
	const char *frame = __builtin_frame_address(0);

	if (own.frame) {
		if (!is_abandoned(frame))
			return (take_moment(moment, true));
		own.lane = NULL;
		own.asked = 0;
	}
	own.frame = frame;
	atomic_signal_fence(memory_order_seq_cst); /* a handler sees the frame before all other changes to the lane */
	if (own.lane)
		return (&own);

	const uint32_t thread = thread_id();

	(void)pthread_setspecific(key, &own);
	if (!own.asked)
		leave_all(thread); /* abandoned lanes, and lanes of a dead thread with the same id */
	for (unsigned int i = 0; i < SING_LANES - MOMENTARY; i++)
		if (take_lane(&own, i, thread))
			return (&own);
	if (take_moment(moment, false))
		return (moment);
	own.frame = NULL;

	return (NULL);
}

void thread_lane_asks(int more)
{
	own.asked += (uint32_t)more;
}

void thread_lane_give(struct thread_lane *s)
{
	if (s != &own) {
		const bool nested = s->nested;

		give_back(s);
		if (nested)
			return;
	}
	atomic_signal_fence(memory_order_seq_cst);
	own.frame = NULL;
}

int thread_lane_start(void)
{
	static bool have_key;
	int rv;

	own = (struct thread_lane){ 0 }; /* a lane in the ring of this process's parent */
	if (have_key)
		return (0);
	rv = pthread_key_create(&key, end_thread);
	have_key = rv == 0;

	return (rv);
}
