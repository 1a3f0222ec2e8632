// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Tensor maps: 128 bytes in the memory of the program, by which kernels of newer devices copy tiles of a tensor. The program
 * passes them to kernels like any other bytes. The driver makes them from a description, without a context.
 */
#include "attach.h"
#include "gen_abi.h"
#include "transport.h"

#include <stdatomic.h>
#include <string.h>

enum { RANK_MOST = 5 };

/* The members that all three kinds of description have. */
struct common {
	int how, type;
	unsigned int rank;
	CUdeviceptr address;
	const uint64_t *dim, *strides;
	const uint32_t *steps;
	int interleave, mode, swizzle, promotion, fill;
};

static CUresult fill_common(sing_tensor_shape *shape, const void *map, const struct common *c)
{
	*shape = (sing_tensor_shape){
		.how = c->how, .type = c->type, .rank = c->rank, .address = c->address,
		.interleave = c->interleave, .mode = c->mode, .swizzle = c->swizzle, .promotion = c->promotion, .fill = c->fill,
	};
	if (!sing_is_initialized())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (map == NULL || c->rank == 0 || c->rank > RANK_MOST || c->dim == NULL || c->steps == NULL || (c->strides == NULL && c->rank > 1))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(shape->dim, c->dim, c->rank * sizeof(*c->dim));
	if (c->rank > 1)
		memcpy(shape->strides, c->strides, (c->rank - 1) * sizeof(*c->strides));
	memcpy(shape->steps, c->steps, c->rank * sizeof(*c->steps));
	return CUDA_SUCCESS;
}

/* Ask the server for a map. A server of software GPUs does not make maps. */
static CUresult make_map(const char *symbol, _Atomic bool *said, void *map, const sing_tensor_shape *shape)
{
	const CUresult r = sing_send_tensor_map(0, map, shape);

	if (r == CUDA_ERROR_NOT_SUPPORTED && !atomic_exchange(said, true))
		sing_missed(symbol, "software GPUs do not copy by tensor maps");
	return r;
}

CUresult sing_cuTensorMapEncodeTiled(void *map, int type, unsigned int rank, CUdeviceptr address, void *dim, void *strides, void *box,
				     void *steps, int interleave, int swizzle, int promotion, int fill)
{
	static _Atomic bool said;
	sing_tensor_shape shape;
	CUresult r = fill_common(&shape, map,
				 &(struct common){ singTensorTiled, type, rank, address, dim, strides, steps, interleave, 0, swizzle, promotion,
						   fill });

	if (r == CUDA_SUCCESS && box == NULL)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r != CUDA_SUCCESS)
		return r;
	memcpy(shape.box, box, rank * sizeof(*shape.box));
	return make_map("cuTensorMapEncodeTiled", &said, map, &shape);
}
SING_PUBLIC(cuTensorMapEncodeTiled);

CUresult sing_cuTensorMapEncodeIm2col(void *map, int type, unsigned int rank, CUdeviceptr address, void *dim, void *strides, void *lower,
				      void *upper, unsigned int channels, unsigned int pixels, void *steps, int interleave, int swizzle,
				      int promotion, int fill)
{
	static _Atomic bool said;
	sing_tensor_shape shape;
	CUresult r = fill_common(&shape, map,
				 &(struct common){ singTensorIm2col, type, rank, address, dim, strides, steps, interleave, 0, swizzle,
						   promotion, fill });

	/* The corners have a number for each dimension except the first and the last. */
	if (r == CUDA_SUCCESS && (lower == NULL || upper == NULL || rank < 3))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r != CUDA_SUCCESS)
		return r;
	memcpy(shape.lower, lower, (rank - 2) * sizeof(*shape.lower));
	memcpy(shape.upper, upper, (rank - 2) * sizeof(*shape.upper));
	shape.channels = channels;
	shape.pixels = pixels;
	return make_map("cuTensorMapEncodeIm2col", &said, map, &shape);
}
SING_PUBLIC(cuTensorMapEncodeIm2col);

CUresult sing_cuTensorMapEncodeIm2colWide(void *map, int type, unsigned int rank, CUdeviceptr address, void *dim, void *strides, int lower,
					  int upper, unsigned int channels, unsigned int pixels, void *steps, int interleave, int mode,
					  int swizzle, int promotion, int fill)
{
	static _Atomic bool said;
	sing_tensor_shape shape;
	const CUresult r = fill_common(&shape, map,
				       &(struct common){ singTensorIm2colWide, type, rank, address, dim, strides, steps, interleave, mode,
							 swizzle, promotion, fill });

	if (r != CUDA_SUCCESS)
		return r;
	shape.lower[0] = lower;
	shape.upper[0] = upper;
	shape.channels = channels;
	shape.pixels = pixels;
	return make_map("cuTensorMapEncodeIm2colWide", &said, map, &shape);
}
SING_PUBLIC(cuTensorMapEncodeIm2colWide);

CUresult sing_cuTensorMapReplaceAddress(void *map, CUdeviceptr address)
{
	sing_tensor_map changed;
	CUresult r;

	if (!sing_is_initialized())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (map == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = sing_send_tensor_map_at(0, &changed, map, address);
	if (r == CUDA_SUCCESS)
		memcpy(map, &changed, sizeof(changed));
	return r;
}
SING_PUBLIC(cuTensorMapReplaceAddress);
