// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Measures OpenBLAS as BenchmarkProduct measures package gemm: products of square matrices on one core, by the time of the
// processor that they take. cc -O2 openblas.c -ldl; OPENBLAS_NUM_THREADS=1 ./a.out libopenblas.so.0
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef void gemm(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
typedef void gemm_double(int, int, int, int, int, int, double, const double *, int, const double *, int, double, double *, int);

enum { BY_COLUMNS = 102, PLAIN = 111, REPEATS = 5 };

int main(int argc, char **argv)
{
	static const int sizes[] = { 256, 1024 };
	void *library = dlopen(argc > 1 ? argv[1] : "libopenblas.so.0", RTLD_NOW);
	gemm *single = library ? (gemm *)dlsym(library, "cblas_sgemm") : NULL;
	gemm_double *twice = library ? (gemm_double *)dlsym(library, "cblas_dgemm") : NULL;

	if (!single || !twice) {
		fprintf(stderr, "%s\n", dlerror());
		return (1);
	}
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); ++s) {
		const int n = sizes[s], repeats = REPEATS * (1024 / n);
		double *a = calloc((size_t)n * n, sizeof(*a)), *b = calloc((size_t)n * n, sizeof(*b)), *c = calloc((size_t)n * n, sizeof(*c));

		for (int wide = 0; wide < 2; ++wide) {
			clock_t begin = 0;

			for (int i = -1; i < repeats; ++i) {
				if (i == 0)
					begin = clock();
				if (wide)
					twice(BY_COLUMNS, PLAIN, PLAIN, n, n, n, 1, a, n, b, n, 0, c, n);
				else
					single(BY_COLUMNS, PLAIN, PLAIN, n, n, n, 1, (float *)a, n, (float *)b, n, 0, (float *)c, n);
			}
			printf("%s, %d: %.1f GFLOP/s\n", wide ? "f64" : "f32", n,
			       2.0 * n * n * n * repeats / ((double)(clock() - begin) / CLOCKS_PER_SEC) / 1e9);
		}
	}
	return (0);
}
