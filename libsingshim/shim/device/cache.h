// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Answers that never change. The functions neither lock nor allocate by malloc. */
#ifndef SING_DEVICE_CACHE_H
#define SING_DEVICE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether the answer to this message is known; then the answer is put into out. */
bool sing_cache_find(uint32_t op, uint64_t context, const void *in, size_t n, void *out, size_t room, size_t *got);

/* Keep an answer, if there is room. */
void sing_cache_keep(uint32_t op, uint64_t context, const void *in, size_t n, const void *out, size_t room, size_t got);

/* Forget all answers: they came from another server. No other thread may be in sing_cache_find. */
void sing_cache_forget(void);

#endif
