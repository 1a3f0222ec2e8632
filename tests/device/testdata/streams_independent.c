// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// expect: kernel-less work: done
// expect: new memory: done
// expect: memory of this stream again: done
// expect: memory of another stream: done
// expect: memory that was allocated: done

/*
 * A stream waits for a value that another stream writes. The earlier work of the other stream, allocations above all, must not wait
 * for the first: nothing orders them. So it is with a stream that waits for a message of another rank.
 */
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "check.h"

enum { SIZE = 1 << 20 };

static CUstream waits, works, third;
static CUdeviceptr flag;
static cuuint32_t turn;

static void hold_stream(void)
{
	OK(cuStreamWaitValue32(waits, flag, ++turn, CU_STREAM_WAIT_VALUE_GEQ));
}

/* Lets the waiting stream go on, from the working stream; both must come to an end. */
static void release_stream(const char *what)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	CUresult r = CUDA_ERROR_NOT_READY;

	OK(cuStreamWriteValue32(works, flag, turn, 0));
	for (int i = 0; i < 5000 && r == CUDA_ERROR_NOT_READY; ++i) {
		r = cuStreamQuery(waits);
		nanosleep(&pause, NULL);
	}
	printf("%s: %s\n", what, r == CUDA_SUCCESS ? "done" : name_of(r));
	if (r != CUDA_SUCCESS) {
		fflush(stdout);
		_Exit(1);
	}
}

int main(void)
{
	CUdeviceptr p, q;

	open_context();
	OK(cuStreamCreate(&waits, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&works, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&third, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc(&flag, 4096));
	OK(cuMemsetD32(flag, 0, 1024));
	OK(cuStreamSynchronize(NULL));

	hold_stream();
	OK(cuMemsetD32Async(flag + 2048, 1, 4, works));
	release_stream("kernel-less work");

	hold_stream();
	OK(cuMemAllocAsync(&p, SIZE, works));
	OK(cuMemsetD8Async(p, 1, SIZE, works));
	release_stream("new memory");

	hold_stream();
	OK(cuMemFreeAsync(p, works));
	OK(cuMemAllocAsync(&q, SIZE, works));
	OK(cuMemsetD8Async(q, 2, SIZE, works));
	release_stream("memory of this stream again");

	OK(cuMemFreeAsync(q, third));
	hold_stream();
	OK(cuMemAllocAsync(&p, SIZE, works));
	OK(cuMemsetD8Async(p, 3, SIZE, works));
	OK(cuMemFreeAsync(p, works));
	release_stream("memory of another stream");

	hold_stream();
	OK(cuMemAlloc(&p, 3 * SIZE));
	OK(cuMemsetD8Async(p, 4, SIZE, works));
	release_stream("memory that was allocated");
	OK(cuCtxSynchronize());
	OK(cuMemFree(p));
	return (0);
}
