// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Mapped memory: access for reading only, the cost of mappings, and a single memory at two addresses. */
#include "probe.h"

#include <sys/wait.h>
#include <unistd.h>

enum { PIECE = 2 << 20, ROUNDS = 15 };

static int compare_numbers(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double middle_of(double *each)
{
	qsort(each, ROUNDS, sizeof(*each), compare_numbers);
	return (each[ROUNDS / 2]);
}

static const char *size_name(size_t n)
{
	static char text[32];

	if (n >= 1u << 30)
		snprintf(text, sizeof(text), "%zu GiB", n >> 30);
	else
		snprintf(text, sizeof(text), "%zu MiB", n >> 20);
	return (text);
}

/* Measures a change of access to and fro, for a size. */
static void time_access(size_t n)
{
	const CUmemGenericAllocationHandle h = new_memory(n);
	const CUdeviceptr p = new_addresses(n);
	double to_read[ROUNDS], to_all[ROUNDS];
	char name[64];

	map_memory(p, n, h);
	OK(allow(p, n, ALLOW_ALL));
	for (int i = 0; i < ROUNDS; ++i) {
		double t = now_us();

		OK(allow(p, n, ALLOW_READ));
		to_read[i] = now_us() - t;
		t = now_us();
		OK(allow(p, n, ALLOW_ALL));
		to_all[i] = now_us() - t;
	}
	snprintf(name, sizeof(name), "to reading only, %s", size_name(n));
	answer(name, middle_of(to_read), "us");
	snprintf(name, sizeof(name), "to reading and writing, %s", size_name(n));
	answer(name, middle_of(to_all), "us");
	OK(cuMemUnmap(p, n));
	OK(cuMemRelease(h));
	OK(cuMemAddressFree(p, n));
}

/* Whether a kernel's write to memory for reading only ends in an error: in a process of its own, for the error stays. */
static void try_write(void)
{
	const CUdeviceptr p = (begin(), new_addresses(PIECE)), q = new_addresses(PIECE);
	CUresult r;

	map_memory(p, PIECE, new_memory(PIECE));
	map_memory(q, PIECE, new_memory(PIECE));
	OK(allow(p, PIECE, ALLOW_ALL));
	OK(allow(q, PIECE, ALLOW_ALL));
	OK(store_word(kernel("store"), p, 7, NULL));
	r = allow(p, PIECE, ALLOW_READ);
	answer_text("cuMemSetAccess for reading only", name_of(r));
	if (r != CUDA_SUCCESS)
		return;
	answer_text("a kernel reads it", name_of(copy_word(kernel("copy"), p, q, NULL)));
	answer_text("a kernel writes it", name_of(store_word(kernel("store"), p, 8, NULL)));
}

void protect(void)
{
	const pid_t child = fork();
	static const size_t sizes[] = { 2u << 20, 1u << 30, (size_t)24 << 30 };
	int status;

	if (child == 0) {
		try_write();
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0)
		cannot("the process that writes has failed");
	begin();
	for (int i = 0; i < 3; ++i) {
		if (at_most(sizes[i]) == sizes[i])
			time_access(sizes[i]);
	}
}

/* Map, access and unmap of a single memory. */
static void time_mapping(size_t n)
{
	const CUmemGenericAllocationHandle h = new_memory(n);
	const CUdeviceptr p = new_addresses(n);
	double map[ROUNDS], access[ROUNDS], unmap[ROUNDS];
	char name[64];

	for (int i = 0; i < ROUNDS; ++i) {
		double t = now_us();

		map_memory(p, n, h);
		map[i] = now_us() - t;
		t = now_us();
		OK(allow(p, n, ALLOW_ALL));
		access[i] = now_us() - t;
		OK(cuCtxSynchronize());
		t = now_us();
		OK(cuMemUnmap(p, n));
		unmap[i] = now_us() - t;
	}
	snprintf(name, sizeof(name), "cuMemMap, %s", size_name(n));
	answer(name, middle_of(map), "us");
	snprintf(name, sizeof(name), "cuMemSetAccess, %s", size_name(n));
	answer(name, middle_of(access), "us");
	snprintf(name, sizeof(name), "cuMemUnmap, %s", size_name(n));
	answer(name, middle_of(unmap), "us");
	OK(cuMemRelease(h));
	OK(cuMemAddressFree(p, n));
}

void mapping(void)
{
	enum { MOST = 128 };
	static CUmemGenericAllocationHandle h[MOST];
	double map[ROUNDS], access[ROUNDS], unmap[ROUNDS];
	CUdeviceptr p;
	size_t many, all;

	begin();
	time_mapping(PIECE);
	if (at_most(1u << 30) == 1u << 30)
		time_mapping(1u << 30);
	all = at_most((size_t)MOST * PIECE);
	many = all / PIECE;
	p = new_addresses(all);
	for (size_t k = 0; k < many; ++k)
		h[k] = new_memory(PIECE);
	for (int i = 0; i < ROUNDS; ++i) {
		double t = now_us();

		for (size_t k = 0; k < many; ++k)
			map_memory(p + k * PIECE, PIECE, h[k]);
		map[i] = (now_us() - t) / (double)many;
		t = now_us();
		OK(allow(p, all, ALLOW_ALL));
		access[i] = (now_us() - t) / (double)many;
		t = now_us();
		OK(cuMemUnmap(p, all));
		unmap[i] = (now_us() - t) / (double)many;
	}
	answer("memories of 2 MiB in one range", (double)many, "");
	answer("cuMemMap, each of them", middle_of(map), "us");
	answer("cuMemSetAccess, one call over all, each", middle_of(access), "us");
	answer("cuMemUnmap, one call over all, each", middle_of(unmap), "us");
}

void alias(void)
{
	const CUmemGenericAllocationHandle h = (begin(), new_memory(PIECE));
	const CUdeviceptr p = new_addresses(PIECE), q = new_addresses(PIECE);
	unsigned int got = 0;
	CUresult r;

	map_memory(p, PIECE, h);
	OK(allow(p, PIECE, ALLOW_ALL));
	r = cuMemMap(q, PIECE, 0, h, 0);
	answer_text("map at a second address", name_of(r));
	if (r != CUDA_SUCCESS)
		return;
	OK(allow(q, PIECE, ALLOW_ALL));
	OK(store_word(kernel("store"), p, 41, NULL));
	OK(copy_word(kernel("copy"), q, q + 8, NULL));
	OK(cuMemcpyDtoH(&got, p + 8, sizeof(got)));
	answer_text("a kernel reads at the second what another wrote at the first", got == 41 ? "yes" : "no");
	answer_text("the first for reading only, the second for writing", name_of(allow(p, PIECE, ALLOW_READ)));
	OK(store_word(kernel("store"), q, 43, NULL));
	OK(cuMemcpyDtoH(&got, p, sizeof(got)));
	answer_text("then a write at the second is read at the first", got == 43 ? "yes" : "no");
}
