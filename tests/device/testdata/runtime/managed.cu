// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Variables that are declared __managed__, as nvcc compiles them: the host uses them like its own, before the first call of CUDA,
// and all devices see the same variables.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

struct state {
	int count;
	double sum;
	int *where;
};

__managed__ int before = 3;
__managed__ state sums = { 1, 0.5, nullptr };
__managed__ int table[1000];
static __device__ __managed__ unsigned int hidden = 40;

static void check(cudaError_t e, int line)
{
	if (e != cudaSuccess) {
		printf("line %d: %s\n", line, cudaGetErrorString(e));
		exit(1);
	}
}
#define OK(call) check(call, __LINE__)

__global__ void fill(int by)
{
	table[threadIdx.x] += by * (int)threadIdx.x;
	if (threadIdx.x == 0) {
		sums.count += by;
		sums.sum *= 2;
		*sums.where = before;
		++hidden;
	}
}

int main()
{
	cudaPointerAttributes is;
	int devices = 0;

	before += 4; /* loads the code */
	sums.where = &table[999];
	OK(cudaGetDeviceCount(&devices));
	for (int d = 0; d < devices; ++d) {
		OK(cudaSetDevice(d));
		fill<<<1, 100>>>(d + 1);
		OK(cudaGetLastError());
		OK(cudaDeviceSynchronize());
		printf("device %d: %d %g %d %d %u\n", d, sums.count, sums.sum, table[50], table[999], hidden);
		before *= 2;
	}
	OK(cudaPointerGetAttributes(&is, table));
	printf("%s\n", is.type == cudaMemoryTypeManaged ? "managed" : "not managed");
	int copy = 0;
	OK(cudaMemcpyFromSymbol(&copy, before, sizeof(copy)));
	printf("%d\n", copy);
	return 0;
}
