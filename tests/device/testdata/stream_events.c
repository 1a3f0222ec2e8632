// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// expect: done

/* Events with times. */
#include "check.h"

int main(void)
{
	CUevent a, b, untimed, bad;
	CUstream s, other;
	CUdeviceptr p;
	float ms = -1, again = -1;

	open_context();
	OK(cuMemAlloc(&p, 4096));
	OK(cuMemsetD8(p, 0, 4096));
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	/* PyTorch marks its own streams by the lowest bit of what is an address for a stream of the program's. */
	HOLDS((uintptr_t)s % 8 == 0 && (uintptr_t)other % 8 == 0);
	OK(cuCtxSynchronize());
	OK(cuEventCreate(&a, CU_EVENT_DEFAULT));
	OK(cuEventCreate(&b, CU_EVENT_BLOCKING_SYNC));
	OK(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
	WANT(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&bad, 8));
	WANT(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, a, b));
	OK(cuEventRecord(a, s));
	OK(cuEventRecord(untimed, s));
	OK(cuStreamWaitValue32(s, p, 1, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuEventRecord(b, s));
	OK(cuEventSynchronize(a));
	WANT(CUDA_ERROR_NOT_READY, cuEventElapsedTime(&ms, a, b));
	OK(cuStreamWriteValue32(other, p, 1, 0));
	OK(cuEventSynchronize(b));
	OK(cuEventElapsedTime(&ms, a, b));
	OK(cuEventElapsedTime(&again, a, b));
	HOLDS(ms > 0 && ms == again);
	OK(cuEventElapsedTime(&again, b, a));
	HOLDS(again == -ms);
	WANT(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, a, untimed));

	/* The last recording counts. */
	OK(cuEventRecord(a, s));
	OK(cuEventSynchronize(a));
	OK(cuEventElapsedTime(&ms, b, a));
	HOLDS(ms >= 0);
	OK(cuEventDestroy(a));
	WANT(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(a));
	puts("done");
	return (0);
}
