// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The current context of a thread: each message names it, and for most calls generated code does so.
 * Contexts are never forgotten, so that a thread gets an error if another thread has destroyed its current
 * context.
 */
#ifndef SING_DEVICE_CONTEXT_H
#define SING_DEVICE_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct sing_context {
	uint64_t handle;
	int device;
	bool primary;
	_Atomic bool alive;
	_Atomic unsigned int attached; /* how often cuCtxAttach was called, less cuCtxDetach */
};

/* The current context of this thread, or NULL. Only context.c changes the variable. */
extern _Thread_local struct sing_context *sing_current __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* The context with that handle, or NULL if there never was such a context. */
struct sing_context *sing_context_find(uint64_t handle);

/* The number of a context among the process's contexts, from 1. Libraries use such numbers as places in lists. */
static inline uint64_t sing_context_number(uint64_t handle)
{
	return handle & 0xffffffffff;
}

/* There is a new context. False: no memory for the entry. */
bool sing_context_add(uint64_t handle, int device, bool primary);

/* The same, for a context that the server has not made yet. */
bool sing_context_name(uint64_t handle, int device, bool primary);

/* 0 if a context is current and alive, else the error of calls that need a context. */
int sing_context_check(void);

#endif
