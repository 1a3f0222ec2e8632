// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Shared by the programs of this folder: checks that say where they failed. */
#ifndef CHECK_H
#define CHECK_H

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

static inline const char *name_of(CUresult r)
{
	const char *name;

	return (cuGetErrorName(r, &name) == CUDA_SUCCESS ? name : "an unknown result");
}

/* The call must return that. */
#define WANT(want, call)                                                                                          \
	do {                                                                                                      \
		CUresult got_ = (call), want_ = (want);                                                           \
		if (got_ != want_) {                                                                              \
			fprintf(stderr, "%s:%d: %s: %s (%d), want %s\n", __FILE__, __LINE__, #call, name_of(got_), \
				got_, name_of(want_));                                                            \
			exit(1);                                                                                  \
		}                                                                                                 \
	} while (0)

#define OK(call) WANT(CUDA_SUCCESS, call)

/* The condition must hold. */
#define HOLDS(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);    \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* Whether the driver itself answers, and no device server. */
static inline int is_native(void)
{
	return (getenv("SINGULARITY_SLURM_DEVICE") == NULL);
}

/* A context on device 0, current. */
static inline CUcontext open_context(void)
{
	CUcontext ctx;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	return (ctx);
}

#define PTX(text) ".version 7.0\n.target sm_70\n.address_size 64\n" text

#endif
