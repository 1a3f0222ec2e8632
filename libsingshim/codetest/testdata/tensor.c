// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Tensor maps, with a server that is written here. Exits with the line that is wrong, modulo 250, plus 1.
 */
#include "attach.h"
#include "gen_abi.h"
#include "transport.h"

#include <stdlib.h>
#include <string.h>

#define HOLDS(condition) \
	do { \
		if (!(condition)) \
			exit(__LINE__ % 250 + 1); \
	} while (0)

static sing_tensor_shape got;
static bool initialized;
static int answer, missed;

bool sing_is_initialized(void)
{
	return initialized;
}

void sing_missed(const char *symbol, const char *why)
{
	HOLDS(strncmp(symbol, "cuTensorMapEncode", 17) == 0 && why[0] != 0);
	++missed;
}

CUresult sing_send_tensor_map(uint32_t per_thread, sing_tensor_map *map, const sing_tensor_shape *shape)
{
	HOLDS(per_thread == 0);
	got = *shape;
	if (answer == CUDA_SUCCESS)
		memset(map, 7, sizeof(*map));
	return answer;
}

CUresult sing_send_tensor_map_at(uint32_t per_thread, sing_tensor_map *changed, const sing_tensor_map *map, CUdeviceptr address)
{
	HOLDS(per_thread == 0);
	*changed = *map;
	if (answer == CUDA_SUCCESS)
		memcpy(changed, &address, sizeof(address));
	else
		memset(changed, 9, sizeof(*changed)); /* after a failure, the program's map must not change */
	return answer;
}

static const uint64_t dim[] = { 11, 12, 13, 14, 15 }, strides[] = { 21, 22, 23, 24 };
static const uint32_t box[] = { 31, 32, 33, 34, 35 }, steps[] = { 41, 42, 43, 44, 45 };
static const int32_t lower[] = { -1, -2, -3 }, upper[] = { 4, 5, 6 };
static unsigned char map[128];

static CUresult encode_tiled(unsigned int rank, const void *list)
{
	return sing_cuTensorMapEncodeTiled(map, 1, rank, 100, (void *)list, (void *)strides, (void *)box, (void *)steps, 2, 3, 4, 5);
}

static CUresult encode_im2col(unsigned int rank, const void *corner)
{
	return sing_cuTensorMapEncodeIm2col(map, 1, rank, 100, (void *)dim, (void *)strides, (void *)corner, (void *)upper, 6, 7, (void *)steps, 2, 3, 4,
					    5);
}

static CUresult encode_wide(void)
{
	return sing_cuTensorMapEncodeIm2colWide(map, 1, 3, 100, (void *)dim, (void *)strides, -8, 9, 6, 7, (void *)steps, 2, 10, 3, 4, 5);
}

int main(void)
{
	HOLDS(encode_tiled(5, dim) == CUDA_ERROR_NOT_INITIALIZED);
	HOLDS(sing_cuTensorMapReplaceAddress(map, 5) == CUDA_ERROR_NOT_INITIALIZED);
	initialized = true;

	HOLDS(encode_tiled(5, dim) == CUDA_SUCCESS && map[0] == 7 && map[127] == 7);
	HOLDS(got.how == singTensorTiled && got.type == 1 && got.rank == 5 && got.address == 100 && got.interleave == 2 && got.swizzle == 3);
	HOLDS(got.promotion == 4 && got.fill == 5 && got.mode == 0 && memcmp(got.dim, dim, sizeof(dim)) == 0);
	HOLDS(memcmp(got.strides, strides, sizeof(strides)) == 0 && got.strides[4] == 0);
	HOLDS(memcmp(got.box, box, sizeof(box)) == 0 && memcmp(got.steps, steps, sizeof(steps)) == 0);
	HOLDS(encode_tiled(1, dim) == CUDA_SUCCESS && got.dim[0] == 11 && got.dim[1] == 0 && got.strides[0] == 0 && got.box[1] == 0 && got.steps[1] == 0);
	HOLDS(encode_tiled(0, dim) == CUDA_ERROR_INVALID_VALUE && encode_tiled(6, dim) == CUDA_ERROR_INVALID_VALUE && encode_tiled(2, NULL) == CUDA_ERROR_INVALID_VALUE);

	HOLDS(encode_im2col(4, lower) == CUDA_SUCCESS && got.how == singTensorIm2col && got.channels == 6 && got.pixels == 7);
	HOLDS(got.lower[0] == -1 && got.lower[1] == -2 && got.lower[2] == 0 && got.upper[1] == 5 && got.upper[2] == 0 && got.box[0] == 0);
	HOLDS(encode_im2col(2, lower) == CUDA_ERROR_INVALID_VALUE && encode_im2col(3, NULL) == CUDA_ERROR_INVALID_VALUE);

	HOLDS(encode_wide() == CUDA_SUCCESS && got.how == singTensorIm2colWide && got.lower[0] == -8 && got.upper[0] == 9 && got.mode == 10);

	HOLDS(sing_cuTensorMapReplaceAddress(map, 0x0102030405060708) == CUDA_SUCCESS && map[0] == 8 && map[7] == 1 && map[8] == 7);
	HOLDS(sing_cuTensorMapReplaceAddress(NULL, 5) == CUDA_ERROR_INVALID_VALUE);

	/* A call that the server does not support is reported once. */
	answer = CUDA_ERROR_NOT_SUPPORTED;
	for (int i = 0; i < 2; ++i)
		HOLDS(encode_tiled(5, dim) == answer && encode_im2col(3, lower) == answer && encode_wide() == answer && missed == 3);
	HOLDS(sing_cuTensorMapReplaceAddress(map, 5) == answer && map[0] == 8 && map[8] == 7);
	return (0);
}
