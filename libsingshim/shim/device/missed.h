// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Calls that are not covered. Each has a function of its own, which only calls sing_miss. */
#ifndef SING_DEVICE_MISSED_H
#define SING_DEVICE_MISSED_H

#include <stdint.h>

struct sing_miss {
	uint32_t symbol, why; /* where they begin in sing_misses_text */
	int32_t result;
};

/* Hidden: else the code would reach them by pointers, which the loader has to relocate. */
#pragma GCC visibility push(hidden)
extern const char sing_misses_text[];
extern const struct sing_miss sing_misses[];
extern unsigned char sing_misses_said[];
#pragma GCC visibility pop

/*
 * Report the call the first time, and return the library's error for calls that it does not support.
 */
int sing_miss(unsigned i);

#endif
