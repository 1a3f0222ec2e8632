// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// expect: ok
//
// Programs mark the part that a profiler is to record. Without a profiler the marks do nothing; they want a context.
#include "check.h"

int main(void)
{
	CUcontext ctx;

	WANT(cuProfilerStart(), CUDA_ERROR_NOT_INITIALIZED);
	OK(cuInit(0));
	WANT(cuProfilerStart(), CUDA_ERROR_INVALID_CONTEXT);
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	OK(cuProfilerStart());
	OK(cuProfilerStart());
	OK(cuProfilerStop());
	puts("ok");
}
