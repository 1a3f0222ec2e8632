// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The layer below transport.h, for code that writes a message where the server will read it, or asks for
 * several answers before waiting for the first (copy.c).
 */
#ifndef SING_DEVICE_SEND_H
#define SING_DEVICE_SEND_H

#include "../ring.h"

/* The most bytes that a message or an answer has in the ring. */
#define SING_RING_LONGEST ((size_t)SING_RECORD_UNITS * SING_UNIT - 256)

/*
 * Begin a message of n bytes, which the caller writes at *at. After 0, ring_post, ring_call, ring_ask or ring_drop must
 * follow; any other result is the result of the call.
 */
int sing_stage(struct ring_draft *d, struct ring_need need, size_t n, unsigned char **at);

/* The result of a call if the ring did not take its message, as an error of the call's library. */
int sing_refusal(uint32_t op, enum ring_result r);

#endif
