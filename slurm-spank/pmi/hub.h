// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* The hub's state, which hub.c and collective.c share. */
#ifndef SING_PMI_HUB_H
#define SING_PMI_HUB_H

#include "pmi.h"

#include <poll.h>

/* The connection of a server. */
struct peer {
	int fd;
	int rank; /* -1 until HELLO has come */
	int asks; /* how many of its questions are not answered yet */
	bool fenced;
	struct buffer in, out;
};

/* A rank that has contributed to a collective, and the number of its request. */
struct contributor {
	int rank;
	uint32_t request;
};

/* A collective operation of PMIx in which some of its members have not come yet. */
struct collective {
	struct collective *next;
	struct buffer signature; /* kind, members and name, as the frames have it; the same for all members */
	size_t members;
	size_t n;
	struct contributor *contributors;
	struct buffer data; /* of the contributors, in the order in which they came */
};

/* A question of a rank about the keys of another, which has not been answered yet. */
struct ask {
	struct ask *next;
	int asker, target;
	uint32_t request;
};

struct hub {
	const char *secret;
	int listener;
	int parent;
	struct peer *peers;
	struct pollfd *fds; /* listener, parent, then each peer's */
	size_t n, room;
	int size; /* of the step; 0 until the first HELLO */
	int ranks; /* connected */
	int fenced;
	bool lost; /* a rank has left */
	bool full; /* there are no more descriptors */
	bool aborted; /* by a rank; ranks that connect later get ABORT, too */
	struct buffer pairs; /* of the ranks that have sent FENCE */
	struct pairs names;
	bool *left; /* which ranks have left; NULL until the first HELLO */
	struct collective *collectives;
	size_t collected;  /* bytes of all collectives */
	uint32_t contexts; /* numbers that were given to collectives */
	struct ask *asks;
};

/* Send a frame; bytes that the socket does not take yet are kept. */
void send_frame(struct peer *p, enum frame_kind kind, const char *bytes, size_t n);

/* --- collective.c: the frames of PMIx. Each take_… returns -1 if the peer must be dropped. --- */

int take_collect(struct hub *h, struct peer *p, const struct frame *f);

int take_ask(struct hub *h, struct peer *p, const struct frame *f);

int take_tell(struct hub *h, const struct frame *f);

/* Send the questions that wait for a rank which has just connected. */
void send_asks(struct hub *h, struct peer *p);

/* Fail the collectives and questions that need a rank that has left. */
void leave_collectives(struct hub *h, int rank);

void forget_collectives(struct hub *h);

#endif
