// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Processes that come and go, with threads that wait for the device, copy and launch at the same time. Each prints its
// results at the end.
// devices: 2
// limit: 60s

#include "check.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const char image[] = PTX(
	".visible .entry turn(.param .u64 p, .param .u32 k)\n"
	"{\n"
	".reg .u32 %i, %t, %b, %d, %v, %k; .reg .u64 %p, %o;\n"
	"mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %d, %ntid.x; mad.lo.u32 %i, %b, %d, %t;\n"
	"mul.wide.u32 %o, %i, 4; ld.param.u64 %p, [p]; add.u64 %p, %p, %o;\n"
	"ld.param.u32 %k, [k]; ld.global.u32 %v, [%p]; mad.lo.u32 %v, %v, 22695477, %k; st.global.u32 [%p], %v;\n"
	"ret;\n"
	"}\n");

enum { WAVES = 3, PROCESSES = 2, THREADS = 3, WORDS = 4096, STEPS = 25 };

struct result {
	unsigned int hash[THREADS];
	unsigned long long at[THREADS];
};

static struct result *results, *mine;
static CUcontext context;
static CUfunction turn;
static unsigned int seed;

static void *run_thread(void *arg)
{
	const unsigned int t = (unsigned int)(unsigned long)arg;
	unsigned int words[WORDS], h = 2166136261u;
	CUdeviceptr p;
	CUstream s;

	OK(cuCtxSetCurrent(context));
	OK(cuStreamCreate(&s, t % 2));
	OK(cuMemAllocAsync(&p, sizeof(words), s));
	for (int i = 0; i < WORDS; ++i)
		words[i] = seed * 1000 + t * 100 + (unsigned int)i;
	OK(cuMemcpyHtoDAsync(p, words, sizeof(words), s));
	OK(cuStreamSynchronize(s));
	for (unsigned int step = 0; step < STEPS; ++step) {
		void *params[] = { &p, &step };

		for (int k = 0; k < 3; ++k)
			OK(cuLaunchKernel(turn, WORDS / 128, 1, 1, 128, 1, 1, 0, s, params, NULL));
		OK(cuMemcpyDtoHAsync(words, p, sizeof(words), s));
		OK(cuStreamSynchronize(s));
		for (int i = 0; i < WORDS; ++i)
			h = (h ^ words[i]) * 16777619u;
	}
	mine->hash[t] = h;
	OK(cuMemFreeAsync(p, s));
	OK(cuStreamDestroy(s));
	return (NULL);
}

static void run_process(int wave, int i)
{
	pthread_t thread[THREADS];
	CUmodule module;

	seed = (unsigned int)(wave * PROCESSES + i);
	mine = &results[seed];
	OK(cuInit(0));
	OK(cuCtxCreate(&context, 0, i % 2));
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&turn, module, "turn"));
	for (unsigned long t = 0; t < THREADS; ++t)
		HOLDS(pthread_create(&thread[t], NULL, run_thread, (void *)t) == 0);
	for (int t = 0; t < THREADS; ++t)
		HOLDS(pthread_join(thread[t], NULL) == 0);
	OK(cuCtxDestroy(context));
	exit(0);
}

int main(void)
{
	results = mmap(NULL, WAVES * PROCESSES * sizeof(*results), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	HOLDS(results != MAP_FAILED);
	for (int wave = 0; wave < WAVES; ++wave) {
		int status;

		for (int i = 0; i < PROCESSES; ++i)
			if (fork() == 0)
				run_process(wave, i);
		for (int i = 0; i < PROCESSES; ++i) {
			HOLDS(wait(&status) > 0);
			HOLDS(WIFEXITED(status) && WEXITSTATUS(status) == 0);
		}
	}
	for (int i = 0; i < WAVES * PROCESSES; ++i)
		for (int t = 0; t < THREADS; ++t)
			printf("process %d thread %d: %08x\n", i, t, results[i].hash[t]);
	return (0);
}
