// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* A program of CUDA's runtime as nvcc compiles it: kernels of templates, streams, events, a graph, a pool, constants, shared and
   pinned memory. Prints the hash of its numbers at each step, which are the same on each GPU. */
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#define OK(call) \
	do { \
		const cudaError_t r_ = (call); \
		if (r_ != cudaSuccess) { \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(r_)); \
			exit(1); \
		} \
	} while (0)

enum { N = 1 << 16, THREADS = 256, BLOCKS = N / THREADS };

__constant__ uint32_t factors[4];
__device__ uint32_t rounds;

template <typename T> __global__ void mix(T *to, const T *from, T salt)
{
	const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	to[i] = (from[i] ^ salt) * factors[i % 4] + i;
	if (i == 0)
		rounds += 1;
}

__global__ void sum(unsigned long long *to, const uint32_t *from)
{
	__shared__ uint32_t part[THREADS];
	const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	part[threadIdx.x] = from[i] >> 8;
	__syncthreads();
	for (unsigned n = THREADS / 2; n > 0; n /= 2) {
		if (threadIdx.x < n)
			part[threadIdx.x] += part[threadIdx.x + n];
		__syncthreads();
	}
	if (threadIdx.x == 0)
		atomicAdd(to, (unsigned long long)part[0]);
}

int main(int argc, char **argv)
{
	const int steps = argc > 1 ? atoi(argv[1]) : 20;
	const uint32_t odd[4] = { 2654435761u, 2246822519u, 3266489917u, 668265263u };
	unsigned long long *total, *seen;
	uint32_t *a, *b, made = 0;
	cudaStream_t first, second;
	cudaEvent_t done;
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	OK(cudaMemcpyToSymbol(factors, odd, sizeof(odd)));
	OK(cudaStreamCreate(&first));
	OK(cudaStreamCreate(&second));
	OK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
	OK(cudaMalloc(&a, 4 * N));
	OK(cudaMallocAsync(&b, 4 * N, first));
	OK(cudaMalloc(&total, 8));
	OK(cudaMallocHost(&seen, 8));
	OK(cudaMemset(a, 1, 4 * N));
	OK(cudaDeviceSynchronize());
	OK(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
	mix<uint32_t><<<BLOCKS, THREADS, 0, first>>>(b, a, 77);
	mix<uint32_t><<<BLOCKS, THREADS, 0, first>>>(a, b, 99);
	OK(cudaStreamEndCapture(first, &graph));
	OK(cudaGraphInstantiate(&exec, graph, 0));
	for (int n = 1; n <= steps; ++n) {
		OK(cudaGraphLaunch(exec, first));
		mix<uint32_t><<<BLOCKS, THREADS, 0, first>>>(b, a, n);
		OK(cudaEventRecord(done, first));
		OK(cudaStreamWaitEvent(second, done, 0));
		OK(cudaMemsetAsync(total, 0, 8, second));
		sum<<<BLOCKS, THREADS, 0, second>>>(total, b);
		OK(cudaMemcpyAsync(seen, total, 8, cudaMemcpyDeviceToHost, second));
		OK(cudaStreamSynchronize(second));
		printf("step %d hash %016llx\n", n, *seen);
		fflush(stdout);
	}
	OK(cudaMemcpyFromSymbol(&made, rounds, sizeof(made)));
	printf("%u rounds\n", made);
	OK(cudaFreeAsync(b, first));
	OK(cudaGraphExecDestroy(exec));
	OK(cudaGraphDestroy(graph));
	OK(cudaFree(a));
	OK(cudaDeviceSynchronize());
	return 0;
}
