// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Calls that are not covered. Each has a function of its own, of which this is all. */
#ifndef SING_DEVICE_MISSED_H
#define SING_DEVICE_MISSED_H

#include <stdint.h>

struct sing_miss {
	uint32_t symbol, why; /* where they begin in sing_misses_text */
	int32_t result;
};

/* Said here too: else they are reached by a pointer that is relocated. */
#pragma GCC visibility push(hidden)
extern const char sing_misses_text[];
extern const struct sing_miss sing_misses[];
extern unsigned char sing_misses_said[];
#pragma GCC visibility pop

/* Report the call the first time, and return what the library returns for what it does not support. */
int sing_miss(unsigned i);

#endif
