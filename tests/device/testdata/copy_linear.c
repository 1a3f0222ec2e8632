// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// expect: done

/* Copies of bytes, of each length and way, with memory that is pinned, registered and neither. */
#include "check.h"

#include <string.h>
#include <sys/mman.h>

static unsigned char byte_at(size_t i, unsigned int seed)
{
	return ((unsigned char)(i * 131 + i / 257 + seed));
}

static void fill_bytes(unsigned char *p, size_t n, unsigned int seed)
{
	for (size_t i = 0; i < n; ++i)
		p[i] = byte_at(i, seed);
}

static void check_bytes(const unsigned char *p, size_t n, unsigned int seed, const char *what)
{
	for (size_t i = 0; i < n; ++i)
		if (p[i] != byte_at(i, seed)) {
			printf("%s: byte %zu of %zu is %#x, not %#x\n", what, i, n, p[i], byte_at(i, seed));
			exit(1);
		}
}

static void both_ways(unsigned char *in, unsigned char *out, CUdeviceptr device, size_t n, CUstream stream, const char *what)
{
	static unsigned int seed;
	CUdeviceptr there = (CUdeviceptr)(uintptr_t)in, back = (CUdeviceptr)(uintptr_t)out;

	fill_bytes(in, n, ++seed);
	memset(out, 0, n);
	OK(cuMemcpyHtoD(device, in, n));
	OK(cuMemcpyDtoH(out, device, n));
	check_bytes(out, n, seed, what);

	fill_bytes(in, n, ++seed);
	OK(cuMemcpyHtoDAsync(device, in, n, stream));
	OK(cuMemcpyDtoHAsync(out, device, n, stream));
	OK(cuStreamSynchronize(stream));
	check_bytes(out, n, seed, what);

	fill_bytes(in, n, ++seed);
	OK(cuMemcpy(device, there, n));
	OK(cuMemcpy(back, device, n));
	check_bytes(out, n, seed, what);

	fill_bytes(in, n, ++seed);
	OK(cuMemcpyAsync(device, there, n, stream));
	OK(cuMemcpyAsync(back, device, n, stream));
	OK(cuStreamSynchronize(stream));
	check_bytes(out, n, seed, what);

	fill_bytes(in, n, ++seed);
	memset(out, 0, n);
	OK(cuMemcpy(back, there, n));
	check_bytes(out, n, seed, what);
}

/* Pinned memory has an address of devices as well. */
static void as_device(unsigned char *in, unsigned char *out, CUdeviceptr device, size_t n, CUstream stream, const char *what)
{
	fill_bytes(in, n, 11);
	memset(out, 0, n);
	OK(cuMemcpyDtoDAsync(device, (uintptr_t)in, n, stream));
	OK(cuMemcpyDtoDAsync((uintptr_t)out, device, n, stream));
	OK(cuStreamSynchronize(stream));
	check_bytes(out, n, 11, what);
	memset(out, 0, n);
	OK(cuMemcpyDtoD((uintptr_t)out + 1, (uintptr_t)in, n - 1));
	OK(cuCtxSynchronize());
	check_bytes(out + 1, n - 1, 11, what);
}

/* Memory that is not pinned may be used again at once. */
static void check_reuse(CUdeviceptr device, CUstream stream)
{
	static unsigned char in[3 << 20], out[3 << 20];

	for (size_t n = 1; n <= sizeof(in); n = n * 5 + 1) {
		fill_bytes(in, n, 7);
		OK(cuMemcpyHtoDAsync(device, in, n, stream));
		memset(in, 0, n);
		OK(cuMemcpyDtoHAsync(out, device, n, stream));
		check_bytes(out, n, 7, "used again"); /* the memory is filled when the call returns */
	}
}

static void check_errors(CUdeviceptr device, size_t size)
{
	char small[64] = { 0 };

	OK(cuMemcpyHtoD(device, NULL, 0));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(device, NULL, 1));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(device + size - 8, small, 64));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(0, small, 64));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(small, device + size, 64));
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(small, 1, 64));
	OK(cuMemcpyDtoH(small, device, 64));
}

int main(void)
{
	static const size_t lengths[] = { 1, 7, 4096, 65535, 65536, 65537, 262144, 1000003, 5 << 20 };
	const size_t most = 5 << 20;
	unsigned char *plain[2], *pinned[2], *registered[2];
	CUdeviceptr device;
	CUstream stream;

	open_context();
	OK(cuMemAlloc(&device, most));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < 2; ++i) {
		plain[i] = malloc(most);
		registered[i] = malloc(most);
		OK(cuMemAllocHost((void **)&pinned[i], most));
		OK(cuMemHostRegister(registered[i], most, 0));
	}
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); ++i) {
		both_ways(plain[0], plain[1], device, lengths[i], stream, "plain");
		both_ways(pinned[0], pinned[1], device, lengths[i], stream, "pinned");
		both_ways(registered[0], registered[1], device, lengths[i], stream, "registered");
		both_ways(pinned[0], plain[1], device, lengths[i], stream, "pinned and plain");
		as_device(pinned[0], pinned[1], device, lengths[i], stream, "pinned, between devices");
		as_device(registered[0], registered[1], device, lengths[i], stream, "registered, between devices");
		as_device(pinned[0], registered[1], device, lengths[i], stream, "pinned and registered, between devices");
	}
	check_reuse(device, stream);
	check_errors(device, most);
	for (int i = 0; i < 2; ++i) {
		OK(cuMemFreeHost(pinned[i]));
		OK(cuMemHostUnregister(registered[i]));
	}
	OK(cuStreamDestroy(stream));
	OK(cuMemFree(device));
	printf("done\n");
	return (0);
}
