// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The functions of the shim that the generated stubs (gen_calls.c) call: functions that carry messages to the
 * device server, that make up handles, and that report calls that are not covered. There is no other
 * implementation, except a test's set of its own.
 *
 * A message is the arguments of a call in their order, little-endian, without padding:
 *
 *	number, handle     its bytes; a handle that the shim makes up is among them
 *	struct             as C has it
 *	array, text        the count of elements, 8 bytes, then the elements
 *	may be NULL        a byte before it, 0 for NULL. For an array, a count of ~0 is NULL
 *	result             no bytes, or that byte if its address may be NULL
 *
 * and the answer is the values of the results, in the same way, arrays first, without the bytes for NULL: a
 * result for which the caller passed NULL is left out.
 *
 * All functions of this file may be called by any thread at any time, in a signal handler too if the program
 * calls CUDA there.
 */
#ifndef SING_DEVICE_TRANSPORT_H
#define SING_DEVICE_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

/* In an op: the caller's default stream is its thread's. */
#define SING_PER_THREAD 0x80000000u

/* The device server cannot be reached. Other results are the library's own. */
#define SING_GONE (-1)

/*
 * Carry a message there and its answer back. At most room bytes are put into out, and *got says
 * how many; a longer answer is SING_GONE. Returns the call's result.
 */
int sing_call(uint32_t op, const void *in, size_t n, void *out, size_t room, size_t *got);

/*
 * The same for a question with an answer that never changes while the program runs: a successful answer may be kept.
 * Handles in the question do not change that, because no handle is ever used twice, neither the shim's nor the
 * server's.
 */
int sing_cached(uint32_t op, const void *in, size_t n, void *out, size_t room, size_t *got);

/*
 * Carry a message there and do not wait. Returns 0, or an error that an earlier message brought and that stays.
 * The caller may change in when this returns.
 */
int sing_post(uint32_t op, const void *in, size_t n);

/*
 * The same, for a message that the barrier counts: counts are k of wire.h's struct sing_count, each
 * for a key in attach.h's form. Such a message passes the gate: the call may wait there for the cut.
 */
int sing_post_counted(uint32_t op, const void *counts, unsigned int k, const void *in, size_t n);

/* A class of handles that the shim makes up: SING_CLASS_… in gen_abi.h. */
enum sing_class;

/* A handle of that class that was never used before in this process; never 0, 1 or 2. */
uint64_t sing_handle_new(enum sing_class class);

/*
 * The handle is not used any more: the call that would have made the object failed, or a call that destroys
 * the object was made. A communicator that NCCL is still making (ncclInProgress) counts as made.
 */
void sing_handle_drop(enum sing_class class, uint64_t handle);

/* Say that a program wanted a call that is not covered, and why not. Called once for each symbol. */
void sing_missed(const char *symbol, const char *why);

#endif
