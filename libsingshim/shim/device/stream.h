// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Whose a stream is. */
#ifndef SING_DEVICE_STREAM_H
#define SING_DEVICE_STREAM_H

#include <stdint.h>

/* A handle is made up, in the context that is current; it is no more. */
void sing_stream_made(uint64_t handle);
void sing_stream_ended(uint64_t handle);

#endif
