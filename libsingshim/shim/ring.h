// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The process's end of the ring (wire/wire.h):
 *
 *	ring_stage   a place for the arguments, in the thread's own lane
 *	...          the caller writes them there
 *	ring_post    into the order, and done; or
 *	ring_call    into the order, and wait for the answer
 *	...          the caller reads it where it is
 *	ring_done    the place is given back
 *
 * These functions do not lock, allocate or call out, and they keep errno. Any thread may call them
 * at any time, and so may a signal handler in the middle of another message: the handler gets a
 * lane for the moment. A handler may leave by siglongjmp, a thread may be cancelled or end at any
 * instruction.
 */
#ifndef SING_SHIM_RING_H
#define SING_SHIM_RING_H

#include "../wire/wire.h"

#include <stdbool.h>

enum ring_result {
	RING_OK = 0,
	RING_NONE,	/* there is no ring */
	RING_FORKED,	/* the ring is the parent's */
	RING_CLOSED,	/* the server has closed it, or is gone */
	RING_TOO_LONG,	/* no message has so many bytes */
	RING_BUSY,	/* calls that were asked must be awaited first */
};

/* A thread's lane of the ring, and how far the thread is in the lane. */
struct thread_lane {
	struct sing_lane *lane; /* NULL: none yet */
	char *bytes;		/* the lane's */
	uint32_t unit;		/* of the lane's first byte */
	uint32_t tail, head;	/* positions: where the next message goes, and head as it was last seen */
	uint32_t thread;
	const char *frame;	/* the sender's stack frame from ring_stage to ring_done, else NULL */
	uint32_t asked;		/* how many calls the thread has asked and does not wait for yet */
	bool nested;		/* in the middle of another message of the thread */
	uint32_t patience;	/* how long to look for an answer before sleeping */
};

/* A message being made. */
struct ring_draft {
	void *args;	 /* the place for the arguments; then where the answer is */
	void *bulk;	 /* and for the bulk */
	int32_t status;	 /* of the answer */
	uint32_t length; /* of the answer */

	/* For ring.c alone. */
	struct thread_lane *held;
	struct sing_record *record;
	uint32_t units;
	struct thread_lane moment;
};

/* The size and the kind of a message that is to be staged. */
struct ring_need {
	uint32_t op;
	bool call;
	uint32_t size;	       /* bytes of arguments, at most SING_SIZE_MAX */
	uint32_t bulk;	       /* bytes behind the arguments that the server copies straight to their destination */
	uint32_t room;	       /* bytes of the answer; 0 if the message is posted */
	uint32_t counts;       /* how many keys the message is counted for */
	const struct sing_count *count;
};

/*
 * Make the memfd this process's ring. Called once, in a process with a single thread or before
 * any other thread calls; in a child of fork, which has its parent's, once more. alive is asked
 * each second of a wait whether the server is still there; it may be NULL. fd stays the
 * caller's and may be closed. Returns 0 or an errno.
 */
int ring_attach(int fd, bool (*alive)(void));

/*
 * Begin a message. Waits while the lane has no room. After RING_OK, ring_post, ring_call or
 * ring_drop must follow; after any other result, no call.
 */
enum ring_result ring_stage(struct ring_draft *d, const struct ring_need *need);

/* Put the message into the order. Waits at a gate that is shut. */
enum ring_result ring_post(struct ring_draft *d);

/*
 * Put the message into the order and wait for the answer. The answer's bytes are at d->args
 * until ring_done, which must follow RING_OK.
 */
enum ring_result ring_call(struct ring_draft *d);
void ring_done(struct ring_draft *d);

/*
 * The two halves of ring_call, for up to four calls at a time: the server works on a call while
 * the answer of another is read. Between the two, the same function may only stage and ask the next
 * call; ring_stage may then return RING_BUSY. RING_OK of ring_ask must be followed by ring_await,
 * and its RING_OK by ring_done before anything else.
 */
enum ring_result ring_ask(struct ring_draft *d);
enum ring_result ring_await(struct ring_draft *d);

/* Drop a message that was staged. */
void ring_drop(struct ring_draft *d);

/* The error of an execution fault, which every call must return from now on, or 0. */
uint32_t ring_fault(void);

/* The inode of the pipe of which the server has the read end now. There is a ring. */
uint64_t ring_pipe(void);

#endif
