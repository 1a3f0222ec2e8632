// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Functions of the program that streams call.
 *
 * The functions run in a thread of the program, started for the first function, with all signals blocked. The
 * thread asks the server for the next function to call, and waits there; the stream goes on when the thread has
 * reported that the function returned. A single thread serves all streams, as CUDA allows. A function that
 * calls CUDA is told CUDA_ERROR_NOT_PERMITTED: what the function waited for could be waiting for the function.
 *
 * What is owed is known by a ticket: to the server a function of the program means nothing. A
 * ticket of a graph's node is kept for as long as there is a program, for graphs made of that
 * graph have it too.
 *
 * A child of fork has no such thread, and needs none: a child has no device. At the program's end the thread
 * ends with the other threads, whatever is still owed then, as CUDA's does.
 */
#ifndef SING_DEVICE_HOSTFUNC_H
#define SING_DEVICE_HOSTFUNC_H

#include "gen_abi.h"

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

struct sing_host_func {
	void (*call)(void *user); /* or NULL, and */
	void (*callback)(CUstream stream, CUresult status, void *user);
	CUstream stream;
	void *user;
};

/* Make a ticket for a function, and see that there is a thread for the function. */
CUresult sing_host_ticket(const struct sing_host_func *f, uint64_t *ticket);

/* What the ticket is for; false if there is no such ticket. */
bool sing_host_find(uint64_t ticket, struct sing_host_func *f);
void sing_host_forget(uint64_t ticket);

/* Whether the calling thread is in such a function; and mark that the thread is or is not. */
bool sing_in_host_func(void);
void sing_host_func_enters(bool in);

#pragma GCC visibility pop

#endif
