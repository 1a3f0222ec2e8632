// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// expect: 1 2 3
// expect: a callback with CUDA_SUCCESS
// expect: not permitted
// expect: 20 of 20

/* Functions of the program that streams call: in order, in a thread of their own, and the calls that they may not make. */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static int order[8], count;
static pthread_t main_thread;

static void note_order(void *user)
{
	HOLDS(!pthread_equal(pthread_self(), main_thread));
	order[count++] = *(int *)user;
}

static void call_driver(void *user)
{
	CUresult *r = user;

	*r = cuCtxSynchronize();
}

static void print_status(CUstream stream, CUresult status, void *user)
{
	HOLDS(stream == *(CUstream *)user);
	printf("a callback with %s\n", name_of(status));
}

static void add_one(void *user)
{
	atomic_fetch_add((atomic_int *)user, 1);
}

/* A function may take its time: other streams go on. */
static void wait_for(void *user)
{
	while (!atomic_load((atomic_int *)user))
		usleep(1000);
}

int main(void)
{
	int numbers[] = { 1, 2, 3 };
	CUstream a, b;
	CUdeviceptr at;
	unsigned int word = 0;
	atomic_int open = 0, sum = 0;
	CUresult inside = CUDA_SUCCESS;

	open_context();
	main_thread = pthread_self();
	OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc(&at, 4));
	for (int i = 0; i < 3; ++i)
		OK(cuLaunchHostFunc(a, note_order, &numbers[i]));
	OK(cuStreamSynchronize(a));
	printf("%d %d %d\n", order[0], order[1], order[2]);
	OK(cuStreamAddCallback(a, print_status, &a, 0));
	OK(cuStreamSynchronize(a));
	OK(cuLaunchHostFunc(a, call_driver, &inside));
	OK(cuStreamSynchronize(a));
	puts(inside == CUDA_ERROR_NOT_PERMITTED ? "not permitted" : name_of(inside));

	OK(cuLaunchHostFunc(a, wait_for, &open));
	OK(cuMemsetD32Async(at, 7, 1, a));
	OK(cuMemsetD32Async(at, 5, 1, b));
	OK(cuStreamSynchronize(b));
	WANT(CUDA_ERROR_NOT_READY, cuStreamQuery(a));
	OK(cuMemcpyDtoHAsync(&word, at, 4, b));
	OK(cuStreamSynchronize(b));
	HOLDS(word == 5);
	atomic_store(&open, 1);
	OK(cuStreamSynchronize(a));
	OK(cuMemcpyDtoH(&word, at, 4));
	HOLDS(word == 7);

	for (int i = 0; i < 20; ++i)
		OK(cuLaunchHostFunc(i % 2 == 0 ? a : NULL, add_one, &sum));
	OK(cuCtxSynchronize());
	printf("%d of 20\n", atomic_load(&sum));
	WANT(CUDA_ERROR_INVALID_VALUE, cuLaunchHostFunc(a, NULL, NULL));
	WANT(CUDA_ERROR_INVALID_VALUE, cuStreamAddCallback(a, print_status, &a, 1));
	/* A function that is still owed at the end does not keep the program. */
	atomic_store(&open, 0);
	OK(cuLaunchHostFunc(a, wait_for, &open));
	return (0);
}
