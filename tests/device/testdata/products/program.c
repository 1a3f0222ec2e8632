// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Multiplies matrices by the calls of cuBLAS: alone, in a batch, with a bias, many queued one behind the other on a stream, and in
// a captured graph; and compares each element's bits with a sum by fused multiply-adds. Prints a hash of what the long chain has
// come to, and how many products the vendor's library was asked for.

#include "../check.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

extern int vendor_products;

struct handle {
	CUstream stream;
	int mode;
};

int cublasSgemm_v2(struct handle *, int, int, int, int, int, const float *, const float *, int, const float *, int, const float *, float *, int);
int cublasGemmStridedBatchedEx(struct handle *, int, int, int, int, int, const void *, const void *, int, int, long long, const void *, int, int,
			       long long, const void *, void *, int, int, long long, int, int, int);
int cublasLtMatmul(void *, const long long *, const void *, const void *, const long long *, const void *, const long long *, const void *,
		   const void *, const long long *, void *, const long long *, const void *, void *, size_t, CUstream);

enum { M = 150, N = 100, K = 70, ROUNDS = 300 };

static float a[K * M], b[N * K], c[N * M], d[N * M], old[N * M], bias[M];
static CUdeviceptr on_a, on_b, on_c, on_bias;

static float next_number(void)
{
	static uint32_t state = 1;

	state = state * 1664525 + 1013904223;
	return ((float)(state >> 8) / (1 << 23) - 1);
}

static void fill_numbers(float *x, int n)
{
	for (int i = 0; i < n; ++i)
		x[i] = next_number();
}

/* c = alpha * a' * b + beta * c + bias, where a is K x M, b is K x N. */
static void compute_expected(float alpha, float beta, const float *added)
{
	for (int j = 0; j < N; ++j) {
		for (int i = 0; i < M; ++i) {
			float sum = 0;

			for (int k = 0; k < K; ++k)
				sum = fmaf(a[i * K + k], b[j * K + k], sum);
			sum *= alpha;
			if (beta != 0)
				sum = fmaf(beta, old[j * M + i], sum);
			c[j * M + i] = added ? sum + added[i] : sum;
		}
	}
}

static void compare_result(const char *what)
{
	for (int i = 0; i < N * M; ++i) {
		if (memcmp(&c[i], &d[i], sizeof(c[i])) != 0) {
			printf("%s: element %d is %a, not %a\n", what, i, d[i], c[i]);
			exit(1);
		}
	}
	printf("%s: right\n", what);
	fflush(stdout);
}

static void fetch_result(CUstream s)
{
	OK(cuMemcpyDtoHAsync(d, on_c, sizeof(d), s));
	OK(cuStreamSynchronize(s));
}

static void multiply_once(struct handle *h, float alpha, float beta)
{
	HOLDS(cublasSgemm_v2(h, 1, 0, M, N, K, &alpha, (float *)on_a, K, (float *)on_b, K, &beta, (float *)on_c, M) == 0);
}

static void try_graph(struct handle *h)
{
	CUgraph graph;
	CUgraphExec exec;

	OK(cuMemsetD8Async(on_c, 0, sizeof(c), h->stream));
	OK(cuStreamBeginCapture(h->stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	multiply_once(h, 1, 0);
	OK(cuStreamEndCapture(h->stream, &graph));
	OK(cuGraphInstantiate(&exec, graph, 0));
	OK(cuGraphLaunch(exec, h->stream));
	fetch_result(h->stream);
	compute_expected(1, 0, NULL);
	compare_result("a captured product");
}

static void try_matmul(struct handle *h)
{
	enum { F32 = 0, COMPUTE_32F = 68, BIAS = 4 };
	const long long left[32] = { F32, 0, K, M, K, 1 }, right[32] = { F32, 0, K, N, K, 1 }, result[32] = { F32, 0, M, N, M, 1 };
	const long long matmul[32] = { [0] = COMPUTE_32F, [1] = F32, [3] = 1, [7] = BIAS, [8] = (long long)on_bias, [26] = -1 };
	const float one = 1, none = 0;

	HOLDS(cublasLtMatmul(h, matmul, &one, (void *)on_a, left, (void *)on_b, right, &none, (void *)on_c, result, (void *)on_c, result, NULL,
			     NULL, 0, h->stream) == 0);
	fetch_result(h->stream);
	compute_expected(1, 0, bias);
	compare_result("a product with a bias");
}

/* A batch by pointers: the arguments are addresses of addresses. */
static void try_pointers(struct handle *h)
{
	enum { F32 = 0, COMPUTE_32F = 68, POINTERS = 1 };
	const long long left[32] = { F32, 0, K, M, K, 1, [8] = POINTERS }, right[32] = { F32, 0, K, N, K, 1, [8] = POINTERS };
	const long long result[32] = { F32, 0, M, N, M, 1, [8] = POINTERS };
	const long long matmul[32] = { [0] = COMPUTE_32F, [1] = F32, [3] = 1, [7] = 1, [26] = -1 };
	const float one = 1, none = 0;

	HOLDS(cublasLtMatmul(h, matmul, &one, (void *)on_a, left, (void *)on_b, right, &none, (void *)on_c, result, (void *)on_c, result, NULL,
			     NULL, 0, h->stream) == 0);
}

/* Each of two products has another A; the second one's are the same numbers. */
static void try_batch(struct handle *h)
{
	enum { F32 = 0, COMPUTE_32F = 68, BATCH = 2 };
	const float one = 1, none = 0;
	CUdeviceptr two;

	OK(cuMemAlloc(&two, BATCH * sizeof(c)));
	HOLDS(cublasGemmStridedBatchedEx(h, 1, 0, M, N, K, &one, (void *)on_a, F32, K, 0, (void *)on_b, F32, K, 0, &none, (void *)two, F32, M,
					 N * M, BATCH, COMPUTE_32F, -1) == 0);
	compute_expected(1, 0, NULL);
	for (int i = 0; i < BATCH; ++i) {
		OK(cuMemcpyDtoHAsync(d, two + (size_t)i * sizeof(d), sizeof(d), h->stream));
		OK(cuStreamSynchronize(h->stream));
		compare_result("a product of a batch");
	}
}

int main(void)
{
	struct handle h = { NULL, 0 };
	uint32_t hash = 2166136261u;

	open_context();
	OK(cuStreamCreate(&h.stream, CU_STREAM_NON_BLOCKING));
	fill_numbers(a, K * M);
	fill_numbers(b, N * K);
	fill_numbers(old, N * M);
	fill_numbers(bias, M);
	OK(cuMemAlloc(&on_a, sizeof(a)));
	OK(cuMemAlloc(&on_b, sizeof(b)));
	OK(cuMemAlloc(&on_c, sizeof(c)));
	OK(cuMemAlloc(&on_bias, sizeof(bias)));
	OK(cuMemcpyHtoD(on_a, a, sizeof(a)));
	OK(cuMemcpyHtoD(on_b, b, sizeof(b)));
	OK(cuMemcpyHtoD(on_bias, bias, sizeof(bias)));
	try_graph(&h); /* first: the kernels are loaded while the stream is captured */

	OK(cuMemcpyHtoD(on_c, old, sizeof(old)));
	multiply_once(&h, 0.7f, 1.3f);
	fetch_result(h.stream);
	compute_expected(0.7f, 1.3f, NULL);
	compare_result("a scaled product");
	try_matmul(&h);
	try_batch(&h);

	/* A chain: each product reads the result of the product before it. */
	for (int round = 0; round < ROUNDS; ++round) {
		for (int i = 0; i < 10; ++i)
			multiply_once(&h, 0.01f, 0.9f);
		if (round % 10 == 9)
			OK(cuStreamSynchronize(h.stream));
	}
	fetch_result(h.stream);
	for (size_t i = 0; i < sizeof(d); ++i)
		hash = (hash ^ ((unsigned char *)d)[i]) * 16777619u;
	printf("chain: %08x\n", hash);

	/* Calls that are not covered go to the vendor's library: here, a batch by pointers, and alpha in device memory. */
	try_pointers(&h);
	h.mode = 1;
	HOLDS(cublasSgemm_v2(&h, 1, 0, M, N, K, (float *)on_bias, (float *)on_a, K, (float *)on_b, K, (float *)on_bias, (float *)on_c, M) == 0);
	printf("%d products of the vendor's\n", vendor_products);
	return (0);
}
