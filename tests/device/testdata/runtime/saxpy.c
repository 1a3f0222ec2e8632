// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * A program of CUDA's runtime API as nvcc makes them, with a kernel that NVRTC compiles: once loaded by the
 * driver's call and launched so, once registered as a fatbin and launched by the runtime.
 */
#include "cuda.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int cudaError_t;
typedef struct cudaStream *cudaStream_t;
struct dim3 {
	unsigned int x, y, z;
};

cudaError_t cudaGetDeviceCount(int *n);
cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaMalloc(void **p, size_t n);
cudaError_t cudaFree(void *p);
cudaError_t cudaMallocHost(void **p, size_t n);
cudaError_t cudaFreeHost(void *p);
cudaError_t cudaMemcpy(void *to, const void *from, size_t n, int kind);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, int kind, cudaStream_t stream);
cudaError_t cudaStreamCreate(cudaStream_t *stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaLaunchKernel(const void *f, struct dim3 grid, struct dim3 block, void **args, size_t shared, cudaStream_t stream);
cudaError_t cudaGetLastError(void);
const char *cudaGetErrorName(cudaError_t e);
void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *function, const char *name, int threads, void *a, void *b, void *c,
			    void *d, int *e);

typedef struct nvrtc *nvrtcProgram;
int nvrtcCreateProgram(nvrtcProgram *p, const char *source, const char *name, int headers, const char *const *texts, const char *const *names);
int nvrtcCompileProgram(nvrtcProgram p, int n, const char *const *options);
int nvrtcGetPTXSize(nvrtcProgram p, size_t *n);
int nvrtcGetPTX(nvrtcProgram p, char *ptx);

#define OK(x)                                                                                         \
	do {                                                                                          \
		const int r_ = (x);                                                                   \
                                                                                                      \
		if (r_ != 0) {                                                                        \
			fprintf(stderr, "line %d: %s: %d %s\n", __LINE__, #x, r_, cudaGetErrorName(r_)); \
			exit(1);                                                                      \
		}                                                                                     \
	} while (0)

enum { N = 10000, HOST_TO_DEVICE = 1, DEVICE_TO_HOST = 2 };

static const char source[] = "extern \"C\" __global__ void saxpy(float a, const float *x, float *y, int n)"
			     "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = a * x[i] + y[i]; }";

static char *compile_source(size_t *n)
{
	const char *const options[] = { "--gpu-architecture=compute_80" };
	nvrtcProgram p;
	char *ptx;

	OK(nvrtcCreateProgram(&p, source, "saxpy.cu", 0, NULL, NULL));
	OK(nvrtcCompileProgram(p, 1, options));
	OK(nvrtcGetPTXSize(p, n));
	ptx = malloc(*n);
	OK(nvrtcGetPTX(p, ptx));
	return ptx;
}

/* A fatbin with a single piece of PTX, as the linker puts fatbins into a program. */
struct fatbin {
	uint32_t magic;
	uint16_t version, header;
	uint64_t size;
	struct {
		uint16_t kind, version;
		uint32_t header;
		uint64_t size;
		uint32_t compressed, unknown;
		uint16_t minor, major;
		uint32_t arch, name, name_size;
		uint64_t flags, zero, plain;
	} entry;
	char text[];
};

static void *wrap_fatbin(const char *ptx, size_t n)
{
	const size_t padded = (n + 7) & ~(size_t)7;
	struct fatbin *f = calloc(1, sizeof(*f) + padded);
	struct {
		uint32_t magic, version;
		void *data, *name;
	} *w = calloc(1, sizeof(*w));

	f->magic = 0xba55ed50;
	f->version = 1;
	f->header = 16;
	f->size = sizeof(f->entry) + padded;
	f->entry.kind = 1;
	f->entry.version = 0x101;
	f->entry.header = sizeof(f->entry);
	f->entry.size = padded;
	f->entry.major = 8;
	f->entry.minor = 4;
	f->entry.arch = 80;
	f->entry.flags = 0x11;
	memcpy(f->text, ptx, n);
	w->magic = 0x466243b1;
	w->version = 1;
	w->data = f;
	return w;
}

/* The host's side of a kernel, as nvcc makes it: its address is its name. */
static void saxpy_stub(void)
{
}

static void check_result(const float *y, float factor, const char *who)
{
	for (int i = 0; i < N; ++i)
		if (y[i] != factor * (float)i) {
			fprintf(stderr, "%s: y[%d] = %g\n", who, i, y[i]);
			exit(1);
		}
	puts(who);
}

int main(void)
{
	const struct dim3 grid = { (N + 255) / 256, 1, 1 }, block = { 256, 1, 1 };
	int devices, capability, n = N;
	float *x, *y, *dx, *dy, a = 3;
	void *args[] = { &a, &dx, &dy, &n };
	cudaStream_t stream;
	CUfunction function;
	CUmodule module;
	void **handle;
	size_t size;
	char *ptx;

	OK(cudaGetDeviceCount(&devices));
	OK(cudaDeviceGetAttribute(&capability, 75, 0));
	printf("%d devices of capability %d\n", devices, capability);
	OK(cudaSetDevice(devices - 1));
	OK(cudaMallocHost((void **)&x, N * sizeof(*x)));
	OK(cudaMallocHost((void **)&y, N * sizeof(*y)));
	for (int i = 0; i < N; ++i) {
		x[i] = (float)i;
		y[i] = 2 * (float)i;
	}
	OK(cudaMalloc((void **)&dx, N * sizeof(*dx)));
	OK(cudaMalloc((void **)&dy, N * sizeof(*dy)));
	OK(cudaMemcpy(dx, x, N * sizeof(*dx), HOST_TO_DEVICE));
	OK(cudaMemcpy(dy, y, N * sizeof(*dy), HOST_TO_DEVICE));
	OK(cudaStreamCreate(&stream));
	ptx = compile_source(&size);

	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&function, module, "saxpy"));
	OK(cuLaunchKernel(function, grid.x, 1, 1, block.x, 1, 1, 0, (CUstream)stream, args, NULL));
	OK(cudaStreamSynchronize(stream));
	OK(cudaMemcpy(y, dy, N * sizeof(*y), DEVICE_TO_HOST));
	check_result(y, 5, "launched by the driver");

	handle = __cudaRegisterFatBinary(wrap_fatbin(ptx, size));
	__cudaRegisterFunction(handle, (const char *)saxpy_stub, "saxpy", "saxpy", -1, NULL, NULL, NULL, NULL, NULL);
	__cudaRegisterFatBinaryEnd(handle);
	OK(cudaLaunchKernel((const void *)saxpy_stub, grid, block, args, 0, stream));
	OK(cudaMemcpyAsync(y, dy, N * sizeof(*y), DEVICE_TO_HOST, stream));
	OK(cudaStreamSynchronize(stream));
	check_result(y, 8, "launched by the runtime");

	OK(cudaStreamDestroy(stream));
	OK(cudaFree(dx));
	OK(cudaFree(dy));
	OK(cudaFreeHost(x));
	OK(cudaFreeHost(y));
	OK(cudaGetLastError());
	__cudaUnregisterFatBinary(handle);
	return 0;
}
