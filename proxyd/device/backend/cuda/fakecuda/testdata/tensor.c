// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "fake.h"

/*
 * Tensor maps: the kind, the address, and sums over the other arguments, so that each argument and its place counts.
 * Like the driver, the fake wants maps at multiples of 64.
 */
struct map {
	uint64_t kind, address, numbers, lists;
	uint64_t none[12];
};

static uint64_t sum_list(uint64_t at, const void *list, size_t size, unsigned int n)
{
	for (unsigned int i = 0; i < n; ++i) {
		uint64_t v = 0;

		memcpy(&v, (const char *)list + i * size, size);
		at = at * 31 + v;
	}
	return (at);
}

static CUresult make_map(void *map, uint64_t kind, unsigned int rank, CUdeviceptr address, uint64_t numbers, uint64_t lists)
{
	if ((uintptr_t)map % 64 != 0 || rank == 0 || rank > 5)
		return (INVALID_VALUE);
	*(struct map *)map = (struct map){ .kind = kind, .address = address, .numbers = numbers, .lists = lists };
	return (OK);
}

CUresult cuTensorMapEncodeTiled(void *map, int type, unsigned int rank, CUdeviceptr address, void *dim, void *strides, void *box, void *steps,
				int interleave, int swizzle, int promotion, int fill)
{
	const int numbers[] = { type, (int)rank, interleave, swizzle, promotion, fill };

	CALL(" type %d, rank %u", type, rank);
	return (make_map(map, 1, rank, address, sum_list(0, numbers, 4, 6), sum_list(sum_list(sum_list(sum_list(0, dim, 8, rank), strides, 8, rank - 1), box, 4, rank), steps, 4, rank)));
}

CUresult cuTensorMapEncodeIm2col(void *map, int type, unsigned int rank, CUdeviceptr address, void *dim, void *strides, void *lower, void *upper,
				 unsigned int channels, unsigned int pixels, void *steps, int interleave, int swizzle, int promotion, int fill)
{
	const int numbers[] = { type, (int)rank, (int)channels, (int)pixels, interleave, swizzle, promotion, fill };

	CALL(" type %d, rank %u", type, rank);
	return (make_map(map, 2, rank, address, sum_list(0, numbers, 4, 8),
			 sum_list(sum_list(sum_list(sum_list(sum_list(0, dim, 8, rank), strides, 8, rank - 1), lower, 4, rank - 2), upper, 4, rank - 2), steps, 4, rank)));
}

CUresult cuTensorMapEncodeIm2colWide(void *map, int type, unsigned int rank, CUdeviceptr address, void *dim, void *strides, int lower, int upper,
				     unsigned int channels, unsigned int pixels, void *steps, int interleave, int mode, int swizzle, int promotion,
				     int fill)
{
	const int numbers[] = { type, (int)rank, lower, upper, (int)channels, (int)pixels, interleave, mode, swizzle, promotion, fill };

	CALL(" type %d, rank %u", type, rank);
	return (make_map(map, 3, rank, address, sum_list(0, numbers, 4, 11), sum_list(sum_list(sum_list(0, dim, 8, rank), strides, 8, rank - 1), steps, 4, rank)));
}

CUresult cuTensorMapReplaceAddress(void *map, CUdeviceptr address)
{
	CALL("");
	if ((uintptr_t)map % 64 != 0)
		return (INVALID_VALUE);
	((struct map *)map)->address = address;
	return (OK);
}
