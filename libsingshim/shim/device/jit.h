// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Options of the just-in-time compiler. A program passes two arrays: the options, and for each option a value in the
 * place of a pointer. Values that the compiler returns are put into the second array.
 */
#ifndef SING_DEVICE_JIT_H
#define SING_DEVICE_JIT_H

#include "gen_abi.h"

#include <stddef.h>
#include <stdint.h>

/* A text that grows in a buffer of the program. */
struct sing_log {
	char *at;	   /* NULL: the log is not wanted */
	unsigned int room; /* with the NUL */
	unsigned int used; /* without */
	void **size;	   /* where the program reads the length, or NULL */
};

/* How many options variables.c may add. */
enum { SING_JIT_ADDED = 2 };

struct sing_jit {
	struct sing_log info, errors;
	void **milliseconds;
	float spent;

	/* The rest, which the server gets. */
	unsigned int n;
	int names[CU_JIT_NUM_OPTIONS + SING_JIT_ADDED];
	unsigned long long values[CU_JIT_NUM_OPTIONS + SING_JIT_ADDED];
};

/*
 * Take options apart. An option that the driver does not know is CUDA_ERROR_INVALID_VALUE; an option that
 * only the driver could carry out is CUDA_ERROR_NOT_SUPPORTED. A log begins as an empty text. values must
 * stay as long as the struct is used.
 */
CUresult sing_jit_read(struct sing_jit *j, unsigned int n, const int *options, void **values);

/*
 * The place of the next text, and its room, 0 if the program wants no log: pass both to a message, then call
 * sing_log_said. The compiler's text is then behind the earlier texts.
 */
char *sing_log_next(const struct sing_log *l, unsigned int *room);
void sing_log_said(struct sing_log *l);

/* Tell the program how long the logs are and how long the compiler took in all. */
void sing_jit_tell(struct sing_jit *j, float milliseconds);

#endif
