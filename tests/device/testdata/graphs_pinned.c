// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// expect: captured: 1 node
// expect: copied before the memory was given up
// expect: refused: STREAM_CAPTURE_UNSUPPORTED, and the memory is there
// expect: captured nothing

/* Pinned memory is given up by another thread while a stream captures: the capture goes on, and copies that were queued before have
 * their bytes. */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { SIZE = 1 << 16 };

static CUcontext ctx;
static unsigned char *registered, *allocated;
static atomic_int given_up;

/* Keeps its stream back until the memory was given up too early, or for as long as that takes at most. */
static void hold_stream(void *user)
{
	(void)user;
	for (int i = 0; i < 300 && !atomic_load(&given_up); ++i)
		usleep(1000);
}

static void *give_memory_up(void *user)
{
	(void)user;
	OK(cuCtxSetCurrent(ctx));
	OK(cuMemHostUnregister(registered));
	memset(registered, 2, SIZE);
	atomic_store(&given_up, 1);
	OK(cuMemFreeHost(allocated));
	return (NULL);
}

static void *try_to_free(void *user)
{
	OK(cuCtxSetCurrent(ctx));
	*(CUresult *)user = cuMemFreeHost(allocated);
	return (NULL);
}

static size_t count_nodes(CUgraph g)
{
	size_t n = 0;

	OK(cuGraphGetNodes(g, NULL, &n));
	return (n);
}

int main(void)
{
	static unsigned char got[SIZE];
	CUresult r = CUDA_SUCCESS;
	CUdeviceptr at;
	CUstream s, t;
	CUgraph g;
	pthread_t thread;

	ctx = open_context();
	OK(cuMemAlloc(&at, SIZE));
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
	registered = aligned_alloc(4096, SIZE);
	memset(registered, 1, SIZE);
	OK(cuMemHostRegister(registered, SIZE, 0));
	OK(cuMemHostAlloc((void **)&allocated, SIZE, 0));

	OK(cuLaunchHostFunc(t, hold_stream, NULL));
	OK(cuMemcpyHtoDAsync(at, registered, SIZE, t));
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	OK(pthread_create(&thread, NULL, give_memory_up, NULL));
	OK(pthread_join(thread, NULL));
	OK(cuMemsetD8Async(at, 3, SIZE, s));
	OK(cuStreamEndCapture(s, &g));
	printf("captured: %zu node\n", count_nodes(g));
	OK(cuGraphDestroy(g));
	OK(cuStreamSynchronize(t));
	OK(cuMemcpyDtoH(got, at, SIZE));
	puts(got[0] == 1 && got[SIZE - 1] == 1 ? "copied before the memory was given up" : "copied what the memory had later");

	/* A capture of the global mode forbids it to all threads. */
	OK(cuMemHostAlloc((void **)&allocated, SIZE, 0));
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(pthread_create(&thread, NULL, try_to_free, &r));
	OK(pthread_join(thread, NULL));
	WANT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(s, &g));
	allocated[SIZE - 1] = 1;
	printf("refused: %s, and the memory is there\n", name_of(r) + strlen("CUDA_ERROR_"));
	OK(cuMemFreeHost(allocated));

	/* A thread in the relaxed mode may do all of it in a capture of its own. */
	OK(cuMemHostAlloc((void **)&allocated, SIZE, 0));
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemFreeHost(allocated));
	OK(cuStreamEndCapture(s, &g));
	puts(count_nodes(g) == 0 ? "captured nothing" : "captured something");
	free(registered);
	return (0);
}
