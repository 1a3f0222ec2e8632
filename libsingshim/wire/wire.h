// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The ring: how the shim in a process and its job's device server talk. The other end is
 * package wire in this folder. Its test compares every number here with its own;
 * docs/formats.md draws the same bytes.
 *
 * A process has a single ring, a memfd that the server made and sealed. Each thread of the
 * process that calls owns a lane of the ring: a circle of bytes in which only that thread
 * writes its messages, each behind the message before. A single word, sing_ring.order, puts the
 * messages of all lanes into a single order. The word names the latest message; each message names
 * the message before:
 *
 *	order ──► message of lane 2 ──► message of lane 0 ──► message of lane 2 (the first)
 *
 * A message is written whole, then a single compare-and-swap of the word reserves its place in
 * the order and publishes the message, in the same step. So there is no moment between reserving
 * and publishing in which a thread could be descheduled, interrupted, cancelled or killed, and
 * hold up other threads: a message that a thread left unfinished is not in the order, and only the
 * rest of its lane is lost until the server has settled the lane. The gates, and the number of
 * messages that may still pass them, are bits of the same word: whether a message passed a gate,
 * and where the message stands in the order, cannot disagree.
 *
 * The server takes all messages with a single swap of the word and reverses their order.
 */
#ifndef SING_RING_WIRE_H
#define SING_RING_WIRE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define SING_RING_MAGIC 0x31474e4952474e53u /* "SNGRING1" */

enum {
	SING_RING_VERSION = 1,
	SING_UNIT = 64, /* messages begin at multiples of 64, and are named by the multiple */
	SING_LANES = 128,
	SING_LANE_UNITS = 16384,
	SING_LANES_AT = 4096,	/* where the lanes' heads are */
	SING_FIRST_UNIT = 1024, /* and where the lanes' bytes begin */
	SING_RECORD_UNITS = 8192, /* no message is longer */
	SING_SIZE_MAX = 65536,	/* nor has more bytes of arguments, beside its bulk */
	SING_COUNTS_MAX = 1024,	/* nor has more counts */
	SING_RING_SIZE = SING_UNIT * (SING_FIRST_UNIT + SING_LANES * SING_LANE_UNITS),
};

/*
 * sing_ring.order. The server waits for its lower half, threads at a gate for the upper half.
 */
#define SING_LAST 0xffffffu	   /* the unit of the latest message; 0: there is none */
#define SING_ASLEEP 0x1000000u	   /* the server waits for the next message: wake the server */
#define SING_CALLS_SHUT (1ull << 32) /* no message may pass */
#define SING_COUNTED_SHUT (1ull << 33) /* no counted message, except those that were granted */
#define SING_CLOSED (1ull << 34)   /* for ever: no call will be answered */
#define SING_GRANT (1ull << 40)	   /* the number of grants: 16 bits from here */
#define SING_GRANTS (0xffffull << 40)

/*
 * sing_lane.state is the owner's thread id, with SING_LEFT when the owner will not come back.
 */
#define SING_LEFT 0x80000000u

/* Positions in a lane count units, modulo 2^31. sing_lane.head is twice a position. */
#define SING_POSITION 0x7fffffffu
#define SING_WAITS 1u /* a thread waits for head to change */

/* Bits of sing_record.flags. */
enum {
	SING_CALL = 1, /* a thread waits for an answer */
};

/* The bits of sing_ring.can, which the process sets, and a status. */
enum {
	SING_ASKS_AGAIN = 1, /* the process repeats a call with status SING_AGAIN: a cut interrupted the call before any effect */
	SING_AGAIN = -2,
};

/* States of sing_answer.state. */
enum {
	SING_AWAITED = 0,
	SING_AWAITED_ASLEEP = 1, /* wake the caller */
	SING_ANSWERED = 2,
	SING_UNANSWERED = 3, /* nor will there be an answer: the ring was closed */
};

/* The beginning of the ring. */
struct sing_ring {
	/* Written by the server, before any other process sees the ring. */
	uint64_t magic;
	uint32_t version, lanes, lane_units, size;
	char reserved0[104];

	_Atomic uint64_t order;
	char reserved1[120];

	/* Written by the process. */
	_Atomic uint32_t left; /* how many lanes were left: a change tells the server to settle some */
	_Atomic uint32_t can;  /* SING_ASKS_AGAIN; in rings of older processes 0 */
	char reserved2[120];

	/* Written by the server. */
	_Atomic uint32_t freed; /* how many lanes the server has settled */
	_Atomic uint32_t fault; /* 0, or the result of every call from now on */
	_Atomic uint64_t pipe;	/* the inode of the pipe of which the server has the read end (attach.h), 0 if not told */
	char reserved3[240];
};
_Static_assert(offsetof(struct sing_ring, order) == 128, "a line of its own");
_Static_assert(offsetof(struct sing_ring, left) == 256, "a line of its own");
_Static_assert(offsetof(struct sing_ring, freed) == 384, "a line of its own");
_Static_assert(sizeof(struct sing_ring) == 640, "layout");

/* The head of a lane. */
struct sing_lane {
	/* Written by the process. */
	_Atomic uint32_t state;	 /* 0: free */
	_Atomic uint32_t inside; /* whether its owner is in a call: from before the order to its answer taken */
	_Atomic uint32_t tail;	 /* of a free lane: the position where the next owner begins */
	char reserved0[52];

	/* Written by the server. */
	_Atomic uint32_t head; /* bytes before this position may be overwritten; and SING_WAITS */
	char reserved1[60];
};
_Static_assert(offsetof(struct sing_lane, head) == 64, "a line of its own");
_Static_assert(sizeof(struct sing_lane) == 128, "layout");
_Static_assert(SING_LANES_AT + SING_LANES * sizeof(struct sing_lane) <= SING_UNIT * SING_FIRST_UNIT, "layout");
_Static_assert(SING_FIRST_UNIT + SING_LANES * SING_LANE_UNITS <= SING_LAST, "every unit has a name");

/*
 * A message: the record, an answer if the message is a call, and the body: counts, the
 * arguments, zeros up to a multiple of 8, the bulk. A message begins where its position says; a
 * message that does not fit behind the previous message begins at the next multiple of
 * SING_LANE_UNITS. The answer's bytes replace the body.
 */
struct sing_record {
	uint32_t prev; /* the unit of the message before in the order, 0 for none */
	uint32_t position;
	uint32_t op;
	uint16_t flags;
	uint16_t counts;
	uint32_t size; /* bytes of arguments: the server copies them, then looks */
	uint32_t bulk; /* bytes that the server copies straight to their destination */
	uint32_t room; /* bytes that an answer may have */
	uint32_t thread;
};
_Static_assert(sizeof(struct sing_record) == 32, "layout");

struct sing_answer {
	_Atomic uint32_t state;
	int32_t status;
	uint32_t length;
	uint32_t reserved;
};
_Static_assert(sizeof(struct sing_answer) == 16, "layout");

/*
 * A message counts as so many operations for a key: a communicator, or a direction of a pair in
 * it.
 */
struct sing_count {
	uint64_t key;
	uint32_t n;
	uint32_t reserved;
};
_Static_assert(sizeof(struct sing_count) == 16, "layout");

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "one half of order is waited for");

#endif
