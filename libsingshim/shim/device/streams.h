// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Which messages are about a stream, and where they name the stream. */
#ifndef SING_DEVICE_STREAMS_H
#define SING_DEVICE_STREAMS_H

#include <stdint.h>

enum sing_stream_use {
	SING_STREAM_WORK,    /* work for the stream */
	SING_STREAM_ASKED,   /* a question about the stream, or a wait for the stream */
	SING_STREAM_DEFAULT, /* work for the default stream, which is not named, and a wait */
};

struct sing_on_stream {
	uint32_t op;
	uint16_t use;
	int16_t at; /* where the stream is: from the beginning, or, negative, from the end */
};

/*
 * Sorted by op. Hidden: else the code would reach them by pointers, which the loader has to
 * relocate.
 */
#pragma GCC visibility push(hidden)
extern const struct sing_on_stream sing_on_streams[];
extern const unsigned int sing_on_stream_count;
#pragma GCC visibility pop

#endif
