// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Beneath transport.h, for code that writes a message where the server will read it, or asks for several
 * answers before waiting for the first (copy.c).
 */
#ifndef SING_DEVICE_SEND_H
#define SING_DEVICE_SEND_H

#include "../ring.h"

/* No message has more bytes in the ring, and no answer. */
#define SING_RING_LONGEST ((size_t)SING_RECORD_UNITS * SING_UNIT - 256)

/*
 * Begin a message of n bytes; *at is where they go. 0 must be followed by ring_post, ring_call, ring_ask or ring_drop; anything
 * else is what the call returns.
 */
int sing_stage(struct ring_draft *d, struct ring_need need, size_t n, unsigned char **at);

/* What a call returns if the ring did not take its message, in the words of its library. */
int sing_refusal(uint32_t op, enum ring_result r);

#endif
