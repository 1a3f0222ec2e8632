// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Which context a stream belongs to. */
#ifndef SING_DEVICE_STREAM_H
#define SING_DEVICE_STREAM_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The distance of the handles of streams. The driver's are addresses, and programs take their lowest bits for 0: PyTorch
 * marks its own streams by the lowest bit.
 */
enum { SING_STREAM_STEP = 8 };

/* A handle is made up, in the context that is current; the stream is destroyed. */
void sing_stream_made(uint64_t handle);
void sing_stream_ended(uint64_t handle);

/* Whether work of a context may be given to a stream: default streams, 0 to 2, are each context's own. */
bool sing_stream_serves(uint64_t handle, uint64_t context);

#endif
