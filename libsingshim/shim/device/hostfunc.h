// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Functions of the program that streams call.
 *
 * The functions run in a thread of the program, started for the first function, with all signals blocked. The
 * thread asks the server for the next function to call, and waits there; the stream goes on when the thread has
 * reported that the function returned. A single thread serves all streams, as CUDA allows. A function that
 * calls CUDA gets CUDA_ERROR_NOT_PERMITTED: it could wait for work that waits for the function itself.
 *
 * The server knows a function by a ticket, because the address of a function is only valid in the program. The
 * ticket of a graph's node is kept until the program ends, for graphs made of that graph have it too.
 *
 * A child of fork has no such thread, because a child has no device. At the program's end the thread ends with
 * the other threads, even if functions are still to be called, as CUDA's thread does.
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

/* Find the function of a ticket; false if there is no such ticket. */
bool sing_host_find(uint64_t ticket, struct sing_host_func *f);
void sing_host_forget(uint64_t ticket);

/* Whether the calling thread is in such a function, and the mark for that. */
bool sing_in_host_func(void);
void sing_host_func_enters(bool in);

#pragma GCC visibility pop

#endif
