// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The cost of calls: launches in bursts that the ring has room for, and calls that are answered. Each line is a name
 * and the nanoseconds of a single call, in the best and in the middle round.
 */
#include "check.h"

#include <time.h>

static const char image[] = PTX(
	".visible .entry none(.param .u64 p, .param .u64 q, .param .u32 n) { ret; }\n");

enum { BURST = 4096, CALLS = 2000, ROUNDS = 41 };

static double nanoseconds_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return ((double)t.tv_sec * 1e9 + (double)t.tv_nsec);
}

static int compare_numbers(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print_times(const char *name, double *each)
{
	qsort(each, ROUNDS, sizeof(*each), compare_numbers);
	printf("%s %.1f %.1f\n", name, each[0], each[ROUNDS / 2]);
}

int main(void)
{
	CUmodule module;
	CUfunction none;
	CUdeviceptr p;
	CUstream stream;
	double each[ROUNDS];
	unsigned int n = 1;
	void *params[] = { &p, &p, &n };
	int v;

	open_context();
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&none, module, "none"));
	OK(cuMemAlloc(&p, 64));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int r = 0; r < ROUNDS; ++r) {
		double since;

		OK(cuStreamSynchronize(stream));
		since = nanoseconds_now();
		for (int i = 0; i < BURST; ++i)
			OK(cuLaunchKernel(none, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
		each[r] = (nanoseconds_now() - since) / BURST;
	}
	OK(cuStreamSynchronize(stream));
	print_times("launch", each);
	for (int r = 0; r < ROUNDS; ++r) {
		const double since = nanoseconds_now();

		for (int i = 0; i < CALLS; ++i)
			OK(cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_NUM_REGS, none));
		each[r] = (nanoseconds_now() - since) / CALLS;
	}
	print_times("answer", each);
	return (0);
}
