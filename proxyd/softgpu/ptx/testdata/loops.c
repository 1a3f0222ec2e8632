// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// The loops of loops.ptx in plain C: "loops NAME N ROUNDS" runs the loop NAME that often and prints the nanoseconds of
// processor time that a round took.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static float *
make_numbers(size_t n)
{
	float *f = malloc(n * sizeof(*f));
	for (size_t i = 0; i < n; i++)
		f[i] = (float)(i % 1000) / 1000;
	return (f);
}

static __attribute__((noinline)) void
run_add(const float *x, float *y, int n)
{
	for (int i = 0; i < n; i++)
		y[i] += x[i];
}

static __attribute__((noinline)) void
run_fdtd(float *ex, float *ey, float *hz, int n)
{
	for (int j = 0; j < n; j++)
		ey[j] = 1;
	for (int i = 1; i < n; i++)
		for (int j = 0; j < n; j++)
			ey[i * n + j] -= 0.5f * (hz[i * n + j] - hz[(i - 1) * n + j]);
	for (int i = 0; i < n; i++)
		for (int j = 1; j < n; j++)
			ex[i * n + j] -= 0.5f * (hz[i * n + j] - hz[i * n + j - 1]);
	for (int i = 0; i < n - 1; i++)
		for (int j = 0; j < n - 1; j++)
			hz[i * n + j] -= 0.7f * (ex[i * n + j + 1] - ex[i * n + j] + ey[(i + 1) * n + j] - ey[i * n + j]);
}

static __attribute__((noinline)) void
run_gemm(const float *a, const float *b, float *c, int n)
{
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++) {
			float s = 0;
			for (int k = 0; k < n; k++)
				s += a[i * n + k] * b[k * n + j];
			c[i * n + j] = s;
		}
}

static __attribute__((noinline)) void
run_mix(float *x, uint32_t *h, int n)
{
	for (int i = 0; i < n; i++) {
		float v = x[i];
		uint32_t u = h[i];
		for (uint32_t k = 0; k < 64; k++) {
			v = v * 3.9f * (1 - v);
			u = (u ^ k) * 16777619;
		}
		x[i] = v;
		h[i] = u;
	}
}

int
main(int argc, char **argv)
{
	if (argc != 4)
		return (2);
	int n = atoi(argv[2]), rounds = atoi(argv[3]);
	size_t all = !strcmp(argv[1], "add") || !strcmp(argv[1], "mix") ? (size_t)n : (size_t)n * n;
	float *a = make_numbers(all), *b = make_numbers(all), *c = make_numbers(all);
	struct timespec from, to;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
	for (int i = 0; i < rounds; i++) {
		if (!strcmp(argv[1], "add"))
			run_add(a, b, n);
		else if (!strcmp(argv[1], "fdtd"))
			run_fdtd(a, b, c, n);
		else if (!strcmp(argv[1], "gemm"))
			run_gemm(a, b, c, n);
		else
			run_mix(a, (uint32_t *)b, n);
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
	printf("%.0f\n", ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / rounds);
	return (b[all / 2] == 12345);
}
