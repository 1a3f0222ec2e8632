// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// expect: done

/* A context that counts its users, as before CUDA 4 and still by pycuda. */
#include "check.h"

int main(void)
{
	CUcontext first, again, other, now;
	CUdevice dev;

	OK(cuInit(0));
	OK(cuDeviceGet(&dev, 0));
	WANT(CUDA_ERROR_INVALID_CONTEXT, cuCtxAttach(&again, 0));
	OK(cuCtxCreate(&other, 0, dev));
	OK(cuCtxCreate(&first, 0, dev));
	WANT(CUDA_ERROR_INVALID_VALUE, cuCtxAttach(&again, 1));
	WANT(CUDA_ERROR_INVALID_VALUE, cuCtxAttach(NULL, 0));
	OK(cuCtxAttach(&again, 0));
	HOLDS(again == first);
	WANT(CUDA_ERROR_INVALID_CONTEXT, cuCtxDetach(other)); /* not current */
	OK(cuCtxDetach(again));
	OK(cuCtxSynchronize()); /* there is a user still */
	OK(cuCtxDetach(first));
	OK(cuCtxGetCurrent(&now));
	HOLDS(now == other);
	WANT(CUDA_ERROR_INVALID_CONTEXT, cuCtxDetach(first));
	OK(cuCtxDetach(other));
	puts("done");
	return (0);
}
