// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Shared by the questions of the probe: checked calls, answers, kernels and clocks. */
#ifndef PROBE_H
#define PROBE_H

#include <cuda.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const char *question; /* the question that this process answers, as "E1" */

/* An answer is a line: question, name, value, unit, with tabs between. */
void answer(const char *name, double value, const char *unit);
void answer_text(const char *name, const char *text);

/* A call's result by its name. */
const char *name_of(CUresult r);

/* The question cannot be answered here: the process ends. */
void cannot(const char *why) __attribute__((noreturn));
void cannot_call(const char *call, CUresult r) __attribute__((noreturn));

#define OK(call)                                         \
	do {                                             \
		CUresult got_ = (call);                  \
		if (got_ != CUDA_SUCCESS)                \
			cannot_call(#call, got_);        \
	} while (0)

double now_us(void);

/* Load the driver, before its first call. Returns NULL, or why that cannot be done. */
const char *load_driver(void);

/* A context on device 0, current. */
CUcontext begin(void);

/* Kernels: store(p, value), copy(from, to), spin(iterations, p), hash(p, pieces, out). */
CUfunction kernel(const char *name);
CUmodule load_kernels(void);

/* A single thread stores a value, or copies a word, in a stream; the result is the stream's status at its end. */
CUresult store_word(CUfunction store, CUdeviceptr at, unsigned int value, CUstream s);
CUresult copy_word(CUfunction copy, CUdeviceptr from, CUdeviceptr to, CUstream s);

/* Physical memory of device 0, and addresses for that memory. */
CUmemGenericAllocationHandle new_memory(size_t n);
CUdeviceptr new_addresses(size_t n);
void map_memory(CUdeviceptr at, size_t n, CUmemGenericAllocationHandle h);
CUresult allow(CUdeviceptr at, size_t n, int flags);
enum { ALLOW_NONE = 0, ALLOW_READ = 1, ALLOW_ALL = 3 };

/* Most bytes that a question takes of the device: a small device has its questions made smaller. */
size_t at_most(size_t wanted);

void protect(void);    /* E1 */
void mapping(void);    /* E2 */
void alias(void);      /* E3 */
void contexts(void);   /* E4 */
void footprint(void);  /* E5 */
void hashing(void);    /* E6 */
void copies(void);     /* E7 */
void collectives(void); /* E8 */
void checkpoint(void); /* E10 */

#endif
