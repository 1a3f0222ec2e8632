// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The cost of calls: launches in bursts that the ring has room for, calls that are answered, and 256 additions a launch,
 * in bursts, until all are done; "plain" is the same additions in C. Each line is a name and the nanoseconds of a single
 * call, in the best and in the middle round.
 */
#include "check.h"

#include <time.h>

static const char image[] = PTX(
	".visible .entry none(.param .u64 p, .param .u64 q, .param .u32 n) { ret; }\n"
	".visible .entry add(.param .u64 x, .param .u64 y, .param .u32 n) {\n"
	".reg .pred %p; .reg .b32 %r<3>; .reg .b64 %rd<4>; .reg .f32 %f<3>;\n"
	"ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u32 %r2, [n]; mov.u32 %r1, %tid.x;\n"
	"setp.ge.u32 %p, %r1, %r2; @%p bra END; mul.wide.u32 %rd3, %r1, 4; add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;\n"
	"ld.global.f32 %f1, [%rd1]; ld.global.f32 %f2, [%rd2]; add.f32 %f1, %f1, %f2; st.global.f32 [%rd2], %f1;\n"
	"END: ret; }\n");

enum { BURST = 4096, CALLS = 2000, ROUNDS = 41, NUMBERS = 256 };

static float from[NUMBERS], to[NUMBERS];

static __attribute__((noipa)) void add_numbers(const float *x, float *y, int n)
{
	for (int i = 0; i < n; ++i)
		y[i] += x[i];
}

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

static void measure_additions(CUmodule module, CUstream stream)
{
	double each[ROUNDS], plain[ROUNDS];
	unsigned int n = NUMBERS;
	CUdeviceptr x, y;
	CUfunction add;
	void *params[] = { &x, &y, &n };

	OK(cuModuleGetFunction(&add, module, "add"));
	OK(cuMemAlloc(&x, sizeof(from)));
	OK(cuMemAlloc(&y, sizeof(to)));
	OK(cuMemcpyHtoD(x, from, sizeof(from)));
	OK(cuMemcpyHtoD(y, to, sizeof(to)));
	for (int r = 0; r < ROUNDS; ++r) {
		double since = nanoseconds_now();

		for (int i = 0; i < BURST; ++i)
			OK(cuLaunchKernel(add, 1, 1, 1, NUMBERS, 1, 1, 0, stream, params, NULL));
		OK(cuStreamSynchronize(stream));
		each[r] = (nanoseconds_now() - since) / BURST;
		since = nanoseconds_now();
		for (int i = 0; i < BURST; ++i)
			add_numbers(from, to, NUMBERS);
		plain[r] = (nanoseconds_now() - since) / BURST;
	}
	print_times("additions", each);
	print_times("plain", plain);
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
	measure_additions(module, stream);
	return (0);
}
