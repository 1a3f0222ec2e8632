// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The cost of copies to the device and back, beside memcpy of as many bytes, which takes turns with them: A B B A. Each line
 * is a name, the best and the median ratio of the copy's speed to memcpy's, by pairs, and the median of memcpy's speed in GB/s.
 */
#include "check.h"

#include <string.h>
#include <time.h>

enum { BYTES = 32 << 20, PAIRS = 41 };

static unsigned char *here, *there;
static CUdeviceptr device;

static double nanoseconds_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return ((double)t.tv_sec * 1e9 + (double)t.tv_nsec);
}

static void copy_plain(void)
{
	memcpy(there, here, BYTES);
	__asm__ volatile("" : : "r"(there) : "memory");
}

static void to_device(void)
{
	OK(cuMemcpyHtoD(device, here, BYTES));
}

static void to_host(void)
{
	OK(cuMemcpyDtoH(there, device, BYTES));
}

static double time_copy(void (*copy)(void))
{
	const double since = nanoseconds_now();

	copy();
	return (nanoseconds_now() - since);
}

static int compare_numbers(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void compare_copies(const char *name, void (*copy)(void))
{
	double ratio[PAIRS], speed[PAIRS];

	time_copy(copy_plain);
	time_copy(copy);
	for (int i = 0; i < PAIRS; ++i) {
		double a, b;

		if (i % 2) {
			a = time_copy(copy_plain);
			b = time_copy(copy);
		} else {
			b = time_copy(copy);
			a = time_copy(copy_plain);
		}
		ratio[i] = a / b;
		speed[i] = BYTES / a;
	}
	qsort(ratio, PAIRS, sizeof(*ratio), compare_numbers);
	qsort(speed, PAIRS, sizeof(*speed), compare_numbers);
	printf("%s %.3f %.3f %.2f\n", name, ratio[PAIRS - 1], ratio[PAIRS / 2], speed[PAIRS / 2]);
}

int main(void)
{
	open_context();
	here = malloc(BYTES);
	there = malloc(BYTES);
	if (here == NULL || there == NULL)
		return (1);
	for (int i = 0; i < BYTES; ++i)
		here[i] = (unsigned char)(i * 7 + (i >> 8));
	memset(there, 0, BYTES);
	OK(cuMemAlloc(&device, BYTES));
	compare_copies("to-device", to_device);
	memset(there, 0, BYTES);
	compare_copies("to-host", to_host);
	to_host();
	return (memcmp(here, there, BYTES) != 0);
}
