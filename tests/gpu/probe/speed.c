// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Speeds: a hash of device memory, and copies. */
#include "probe.h"

#include <pthread.h>

enum { ROUNDS = 7 };

void hashing(void)
{
	const size_t n = (begin(), at_most((size_t)4 << 30));
	const CUfunction hash = kernel("hash");
	unsigned long long pieces = n / 16, first[2], second[2];
	double best = 0;
	CUdeviceptr p, out;
	void *params[] = { &p, &pieces, &out };
	int processors;
	CUdevice dev;

	OK(cuDeviceGet(&dev, 0));
	OK(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, dev));
	OK(cuMemAlloc(&p, n));
	OK(cuMemAlloc(&out, 16));
	OK(cuMemsetD32(p, 0x01020304, n / 4));
	for (int i = 0; i < ROUNDS; ++i) {
		double t;

		OK(cuMemsetD8(out, 0, 16));
		OK(cuCtxSynchronize());
		t = now_us();
		OK(cuLaunchKernel(hash, (unsigned int)processors * 8, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
		OK(cuCtxSynchronize());
		t = now_us() - t;
		best = best > (double)n / t / 1e3 ? best : (double)n / t / 1e3;
		OK(cuMemcpyDtoH(i == 0 ? first : second, out, 16));
	}
	answer("bytes", (double)n / (1 << 20), "MiB");
	answer("best of 7", best, "GB/s");
	answer_text("the same each time", memcmp(first, second, sizeof(first)) == 0 ? "yes" : "no");
	OK(cuMemsetD8(p + n / 2, 5, 1));
	OK(cuMemsetD8(out, 0, 16));
	OK(cuLaunchKernel(hash, (unsigned int)processors * 8, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
	OK(cuMemcpyDtoH(second, out, 16));
	answer_text("another after one byte has changed", memcmp(first, second, sizeof(first)) != 0 ? "yes" : "no");
}

static size_t bytes;
static CUdeviceptr there, there_too;
static unsigned char *pinned, *pinned_too, *pageable;
static CUstream up, down;

static void pinned_up(void)
{
	OK(cuMemcpyHtoDAsync(there, pinned, bytes, up));
}

static void pinned_down(void)
{
	OK(cuMemcpyDtoHAsync(pinned_too, there_too, bytes, down));
}

static void pinned_both(void)
{
	pinned_up();
	pinned_down();
}

static void pageable_up(void)
{
	OK(cuMemcpyHtoD(there, pageable, bytes));
}

static void pageable_down(void)
{
	OK(cuMemcpyDtoH(pageable, there, bytes));
}

static void on_device(void)
{
	OK(cuMemcpyDtoDAsync(there, there_too, bytes, up));
}

static void time_copy(const char *name, void (*copy)(void), double directions)
{
	double best = 0;

	for (int i = 0; i < ROUNDS; ++i) {
		double t = now_us(), speed;

		copy();
		OK(cuCtxSynchronize());
		t = now_us() - t;
		speed = directions * (double)bytes / t / 1e3;
		best = best > speed ? best : speed;
	}
	answer(name, best, "GB/s");
}

void copies(void)
{
	begin();
	bytes = at_most(256u << 20);
	if (bytes > at_most(2 * bytes) / 2)
		bytes /= 2;
	OK(cuMemAlloc(&there, bytes));
	OK(cuMemAlloc(&there_too, bytes));
	OK(cuMemHostAlloc((void **)&pinned, bytes, 0));
	OK(cuMemHostAlloc((void **)&pinned_too, bytes, 0));
	pageable = malloc(bytes);
	if (pageable == NULL)
		cannot("no memory on the host");
	memset(pageable, 3, bytes);
	memset(pinned, 4, bytes);
	memset(pinned_too, 0, bytes);
	OK(cuStreamCreate(&up, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&down, CU_STREAM_NON_BLOCKING));
	answer("bytes", (double)bytes / (1 << 20), "MiB");
	time_copy("pinned to device", pinned_up, 1);
	OK(cuMemsetD8(there_too, 9, bytes));
	time_copy("device to pinned", pinned_down, 1);
	answer_text("the bytes arrived", pinned_too[0] == 9 && pinned_too[bytes - 1] == 9 ? "yes" : "no");
	time_copy("both at once, together", pinned_both, 2);
	time_copy("pageable to device", pageable_up, 1);
	time_copy("device to pageable", pageable_down, 1);
	time_copy("within the device", on_device, 1);
}
