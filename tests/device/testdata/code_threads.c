// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Threads that load, launch and unload at the same time, each on its own stream and some on their default streams.
// expect: 8 threads, 800 launches each

#include "check.h"

#include <pthread.h>

static const char image[] = PTX(
	".visible .entry add(.param .u64 p, .param .u32 v)\n"
	"{ .reg .u64 %p; .reg .u32 %v; ld.param.u64 %p, [p]; ld.param.u32 %v, [v]; red.global.add.u32 [%p], %v; ret; }\n");

enum { THREADS = 8, ROUNDS = 4, LAUNCHES = 200 };

static CUcontext ctx;
static CUmodule shared;

static void *run_thread(void *arg)
{
	const unsigned int v = (unsigned int)(size_t)arg + 1;
	CUstream stream;
	CUdeviceptr p;
	unsigned int sum = 0;

	OK(cuCtxSetCurrent(ctx));
	OK(cuMemAlloc(&p, 4));
	OK(cuMemcpyHtoD(p, &sum, 4));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int round = 0; round < ROUNDS; ++round) {
		CUmodule own;
		CUfunction add;
		unsigned int value = v;
		void *params[] = { &p, &value };

		OK(cuModuleLoadData(&own, image));
		OK(cuModuleGetFunction(&add, round % 2 == 0 ? own : shared, "add"));
		for (int i = 0; i < LAUNCHES; ++i)
			OK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, v % 2 == 0 ? stream : CU_STREAM_PER_THREAD, params, NULL));
		OK(cuStreamSynchronize(v % 2 == 0 ? stream : CU_STREAM_PER_THREAD));
		OK(cuModuleUnload(own));
	}
	OK(cuMemcpyDtoH(&sum, p, 4));
	HOLDS(sum == v * ROUNDS * LAUNCHES);
	OK(cuStreamDestroy(stream));
	OK(cuMemFree(p));
	return (NULL);
}

int main(void)
{
	pthread_t threads[THREADS];

	ctx = open_context();
	OK(cuModuleLoadData(&shared, image));
	for (size_t i = 0; i < THREADS; ++i)
		HOLDS(pthread_create(&threads[i], NULL, run_thread, (void *)i) == 0);
	for (int i = 0; i < THREADS; ++i)
		HOLDS(pthread_join(threads[i], NULL) == 0);
	printf("%d threads, %d launches each\n", THREADS, ROUNDS * LAUNCHES);
	return (0);
}
