// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// expect: refused as CUDA does

/* Calls that are refused while a stream captures, and the state of the capture afterwards. */
#include "check.h"

#include <pthread.h>

static CUstream s, t;
static CUdeviceptr a;
static CUcontext ctx;

static void begin_capture(int mode)
{
	OK(cuStreamBeginCapture(s, mode));
	OK(cuMemsetD8Async(a, 1, 4, s));
}

/* The capture was made invalid: each call on its stream is refused, until the capture has ended. */
static void expect_invalid(void)
{
	CUgraph g = (CUgraph)1;
	int status;

	OK(cuStreamIsCapturing(s, &status));
	HOLDS(status == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	WANT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuMemsetD8Async(a, 1, 4, s));
	WANT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(s, &g));
	HOLDS(g == NULL);
	OK(cuStreamIsCapturing(s, &status));
	HOLDS(status == CU_STREAM_CAPTURE_STATUS_NONE);
	OK(cuMemsetD8Async(a, 1, 4, s));
	OK(cuStreamSynchronize(s));
}

static void expect_valid(void)
{
	CUgraph g;

	OK(cuMemsetD8Async(a, 1, 4, s));
	OK(cuStreamEndCapture(s, &g));
	OK(cuGraphDestroy(g));
}

static void *allocate_in_thread(void *want)
{
	CUdeviceptr b;

	OK(cuCtxSetCurrent(ctx));
	WANT(*(CUresult *)want, cuMemAlloc(&b, 4));
	return (NULL);
}

static void expect_in_another_thread(CUresult want)
{
	pthread_t thread;

	OK(pthread_create(&thread, NULL, allocate_in_thread, &want));
	OK(pthread_join(thread, NULL));
}

static void check_unsafe_calls(void)
{
	int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUdeviceptr b;
	CUevent e;

	OK(cuEventCreate(&e, 0));
	OK(cuEventRecord(e, t));
	begin_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
	WANT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc(&b, 4));
	expect_invalid();
	begin_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
	WANT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuEventQuery(e));
	expect_invalid();
	begin_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
	expect_in_another_thread(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	expect_invalid();
	begin_capture(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	expect_in_another_thread(CUDA_SUCCESS);
	WANT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc(&b, 4));
	expect_invalid();
	begin_capture(CU_STREAM_CAPTURE_MODE_RELAXED);
	OK(cuMemAlloc(&b, 4));
	OK(cuEventQuery(e));
	expect_valid();
	begin_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	HOLDS(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
	OK(cuMemFree(b));
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	HOLDS(mode == CU_STREAM_CAPTURE_MODE_RELAXED);
	expect_valid();
}

static void check_waits(void)
{
	CUevent e, never;
	unsigned int word;
	int status;

	OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	OK(cuEventCreate(&never, CU_EVENT_DISABLE_TIMING));
	begin_capture(CU_STREAM_CAPTURE_MODE_RELAXED);
	WANT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(s));
	expect_invalid();
	begin_capture(CU_STREAM_CAPTURE_MODE_RELAXED);
	WANT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamQuery(s));
	expect_invalid();
	begin_capture(CU_STREAM_CAPTURE_MODE_RELAXED);
	WANT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuCtxSynchronize());
	expect_invalid();
	begin_capture(CU_STREAM_CAPTURE_MODE_RELAXED);
	OK(cuEventRecord(e, s));
	WANT(CUDA_ERROR_CAPTURED_EVENT, cuEventSynchronize(e));
	expect_invalid();
	/* s is a blocking stream: the legacy stream would have to wait for s. */
	begin_capture(CU_STREAM_CAPTURE_MODE_RELAXED);
	WANT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuStreamIsCapturing(CU_STREAM_LEGACY, &status));
	WANT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuMemcpyDtoH(&word, a, 4));
	expect_invalid();
	begin_capture(CU_STREAM_CAPTURE_MODE_RELAXED);
	WANT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuMemsetD8Async(a, 1, 4, NULL));
	expect_invalid();
	begin_capture(CU_STREAM_CAPTURE_MODE_RELAXED);
	WANT(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(s, never, 0));
	expect_invalid();
	OK(cuEventRecord(e, t));
	OK(cuEventSynchronize(e));
}

static void check_ends(void)
{
	CUgraph g;
	CUevent e;

	OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	WANT(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(s, &g));
	WANT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL));
	WANT(CUDA_ERROR_INVALID_VALUE, cuStreamBeginCapture(s, 7));
	begin_capture(CU_STREAM_CAPTURE_MODE_RELAXED);
	WANT(CUDA_ERROR_ILLEGAL_STATE, cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	expect_invalid();
	/* Forked, and not joined. */
	begin_capture(CU_STREAM_CAPTURE_MODE_RELAXED);
	OK(cuEventRecord(e, s));
	OK(cuStreamWaitEvent(t, e, 0));
	OK(cuMemsetD8Async(a, 1, 4, t));
	WANT(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(s, &g));
	OK(cuStreamSynchronize(t));
	/* Ended on another stream than that of the begin. */
	begin_capture(CU_STREAM_CAPTURE_MODE_RELAXED);
	OK(cuEventRecord(e, s));
	OK(cuStreamWaitEvent(t, e, 0));
	WANT(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cuStreamEndCapture(t, &g));
	expect_invalid();
	/* Two captures cannot be merged. */
	begin_capture(CU_STREAM_CAPTURE_MODE_RELAXED);
	OK(cuStreamBeginCapture(t, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuEventRecord(e, t));
	WANT(CUDA_ERROR_STREAM_CAPTURE_MERGE, cuStreamWaitEvent(s, e, 0));
	WANT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(t, &g));
	expect_invalid();
	/* A call that is wrong in itself. */
	begin_capture(CU_STREAM_CAPTURE_MODE_RELAXED);
	WANT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamWaitValue32(s, a, 1, 0));
	expect_invalid();
}

int main(void)
{
	ctx = open_context();
	OK(cuStreamCreate(&s, CU_STREAM_DEFAULT));
	OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc(&a, 4));
	check_unsafe_calls();
	check_waits();
	check_ends();
	puts("refused as CUDA does");
	return (0);
}
