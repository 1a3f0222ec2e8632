// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* The results of calls of the libraries, by number. */
#ifndef SING_DEVICE_RESULTS_H
#define SING_DEVICE_RESULTS_H

#include <stdint.h>

enum sing_library {
	SING_DRIVER,
	SING_NCCL,
	SING_NVML,
};

struct sing_result {
	uint32_t library;
	int32_t number;
	uint32_t name, text; /* where they begin in sing_result_texts */
};

/*
 * Hidden: else the code would reach them by pointers, which the loader has to
 * relocate.
 */
#pragma GCC visibility push(hidden)
extern const char sing_result_texts[];
extern const struct sing_result sing_results[];
extern const unsigned sing_result_count;
#pragma GCC visibility pop

#endif
