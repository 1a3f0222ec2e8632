// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// expect: done

/* Streams: the calls that order work, and those that do not. */
#include "check.h"

#include <stdint.h>

static uint32_t read_word(CUdeviceptr p)
{
	uint32_t v;

	OK(cuMemcpyDtoH(&v, p, sizeof(v)));
	return v;
}

int main(void)
{
	CUcontext ctx = open_context(), got;
	CUstream a, b, free_one;
	CUdeviceptr p;
	CUevent e;
	unsigned int flags;
	unsigned long long ids[2];
	int least, greatest, priority;

	OK(cuMemAlloc(&p, 4096));
	OK(cuStreamCreate(&a, CU_STREAM_DEFAULT));
	OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
	WANT(CUDA_ERROR_INVALID_VALUE, cuStreamCreate(&free_one, 2));
	OK(cuCtxGetStreamPriorityRange(&least, &greatest));
	HOLDS(least == 0 && greatest < 0);
	OK(cuStreamCreateWithPriority(&free_one, CU_STREAM_NON_BLOCKING, greatest - 10));
	OK(cuStreamGetPriority(free_one, &priority));
	HOLDS(priority == greatest);
	OK(cuStreamGetFlags(b, &flags));
	HOLDS(flags == CU_STREAM_NON_BLOCKING);
	OK(cuStreamGetCtx(a, &got));
	HOLDS(got == ctx);
	OK(cuStreamGetId(a, &ids[0]));
	OK(cuStreamGetId(b, &ids[1]));
	HOLDS(ids[0] != ids[1]);

	/* a waits for a word; b and c go on; the word ends the wait. */
	OK(cuMemsetD32(p, 0, 1024));
	OK(cuStreamSynchronize(NULL));
	OK(cuStreamWaitValue32(a, p, 3, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuMemsetD32Async(p + 4, 1, 1, a));
	WANT(CUDA_ERROR_NOT_READY, cuStreamQuery(a));
	OK(cuMemsetD32Async(p + 8, 2, 1, b));
	OK(cuStreamSynchronize(b));
	OK(cuStreamQuery(b));
	WANT(CUDA_ERROR_NOT_READY, cuStreamQuery(a));
	OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	OK(cuEventQuery(e)); /* never recorded */
	OK(cuEventRecord(e, a));
	WANT(CUDA_ERROR_NOT_READY, cuEventQuery(e));
	OK(cuStreamWaitEvent(free_one, e, 0));
	OK(cuMemcpyDtoDAsync(p + 12, p + 4, 4, free_one));
	WANT(CUDA_ERROR_NOT_READY, cuStreamQuery(free_one));
	OK(cuStreamWriteValue32(b, p, 3, 0));
	OK(cuStreamSynchronize(free_one));
	HOLDS(read_word(p + 4) == 1 && read_word(p + 8) == 2 && read_word(p + 12) == 1);
	OK(cuEventSynchronize(e));

	/* The legacy stream and a wait for each other; b does not. */
	OK(cuStreamWaitValue32(b, p + 16, 1, CU_STREAM_WAIT_VALUE_GEQ));
	OK(cuMemsetD32Async(p + 20, 7, 1, a));
	OK(cuMemcpyDtoDAsync(p + 24, p + 20, 4, CU_STREAM_LEGACY));
	OK(cuMemcpyDtoDAsync(p + 28, p + 24, 4, a));
	OK(cuStreamSynchronize(a));
	HOLDS(read_word(p + 28) == 7);
	WANT(CUDA_ERROR_NOT_READY, cuStreamQuery(b));
	OK(cuStreamWriteValue32(a, p + 16, 1, 0));
	OK(cuCtxSynchronize());
	OK(cuStreamQuery(b));

	/* An error of a posted call is returned by the next call that waits, once; a driver returns it at once. */
	WANT(is_native() ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS, cuMemsetD32Async(p + 4096, 1, 1, a));
	WANT(is_native() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE, cuStreamSynchronize(a));
	OK(cuStreamSynchronize(a));

	/* A stream that is destroyed still does its work. */
	OK(cuMemsetD32Async(p, 9, 1024, a));
	OK(cuStreamDestroy(a));
	OK(cuCtxSynchronize());
	HOLDS(read_word(p + 4092) == 9);
	OK(cuEventDestroy(e));
	puts("done");
	return (0);
}
