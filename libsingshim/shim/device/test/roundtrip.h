// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* For gen_roundtrip.c: random arguments, and a line for each call that the other end can compare. */
#ifndef SING_DEVICE_ROUNDTRIP_H
#define SING_DEVICE_ROUNDTRIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most elements of an array that is made up here. */
enum { MOST = 2048 };

uint64_t number(void);
void fill(void *to, size_t n);
void letters(char *to, size_t n); /* and a NUL */
bool often(void);                 /* three times in four; always in the first round */
unsigned int pick_length(unsigned int limit); /* below the limit; 0 in the first round, for calls with empty arrays */

/* Print a line: the call, its arguments, the result, the values that come back. */
void say_begin(const char *symbol, bool per_thread);
void say_field(const char *name, const void *value, size_t size);
void say_array(const char *name, const void *elements, uint64_t count, size_t size);
void say_wanted(const char *name, bool is);
void say_result(int r);
void say_end(void);

/* Each call once, in each of its variants. */
void roundtrip(void);

#endif
