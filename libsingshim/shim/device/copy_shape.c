// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Copies of two and three dimensions. The server checks them and carries them out; see copy.c for when they return. */
#include "array.h"
#include "attach.h"
#include "context.h"
#include "copy.h"
#include "gen_abi.h"
#include "hostmem.h"
#include "pack.h"
#include "transport.h"

_Static_assert(sizeof(CUDA_MEMCPY3D) == sizeof(CUDA_MEMCPY3D_PEER) && offsetof(CUDA_MEMCPY3D, depth) == offsetof(CUDA_MEMCPY3D_PEER, depth) &&
		       offsetof(CUDA_MEMCPY3D, dstPitch) == offsetof(CUDA_MEMCPY3D_PEER, dstPitch),
	       "they differ in what is reserved in the one");

/* A side of a copy, and how much is copied. */
struct side {
	int type;
	uint64_t base, pitch, rows, x, y, z;
};

struct shape {
	struct side src, dst;
	uint64_t width, height, depth;
};

/* Where a side of a copy may be in an array. */
struct array_side {
	int *type;
	CUarray *array;
	CUdeviceptr *device;
	size_t *pitch, *rows; /* rows: NULL in two dimensions */
	size_t at[3];
};

/* Turn a side that is in an array into a side in the array's memory. */
static CUresult resolve_array(const struct array_side *s, const size_t extent[3])
{
	struct sing_array a;

	if (*s->type != CU_MEMORYTYPE_ARRAY)
		return CUDA_SUCCESS;
	if (*s->array == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sing_array_find(*s->array, &a))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!sing_array_holds(&a, s->at, extent))
		return CUDA_ERROR_INVALID_VALUE;
	*s->type = CU_MEMORYTYPE_DEVICE;
	*s->array = NULL;
	*s->device = a.base;
	*s->pitch = a.pitch;
	if (s->rows != NULL)
		*s->rows = a.rows;
	return CUDA_SUCCESS;
}

static CUresult resolve_flat(CUDA_MEMCPY2D *c)
{
	const size_t extent[3] = { c->width, c->height, 1 };
	const struct array_side src = { &c->srcType, &c->srcArray, &c->srcDevice, &c->srcPitch, NULL, { c->srcX, c->srcY, 0 } };
	const struct array_side dst = { &c->dstType, &c->dstArray, &c->dstDevice, &c->dstPitch, NULL, { c->dstX, c->dstY, 0 } };
	const CUresult r = resolve_array(&src, extent);

	return r == CUDA_SUCCESS ? resolve_array(&dst, extent) : r;
}

static CUresult resolve_solid(CUDA_MEMCPY3D *c)
{
	const size_t extent[3] = { c->width, c->height, c->depth };
	const struct array_side src = {
		&c->srcType, &c->srcArray, &c->srcDevice, &c->srcPitch, &c->srcHeight, { c->srcX, c->srcY, c->srcZ },
	};
	const struct array_side dst = {
		&c->dstType, &c->dstArray, &c->dstDevice, &c->dstPitch, &c->dstHeight, { c->dstX, c->dstY, c->dstZ },
	};
	const CUresult r = resolve_array(&src, extent);

	return r == CUDA_SUCCESS ? resolve_array(&dst, extent) : r;
}

static uint64_t base_of(int type, const void *host, CUdeviceptr device)
{
	return type == CU_MEMORYTYPE_HOST ? (uintptr_t)host : device;
}

static struct shape shape_of_2d(const CUDA_MEMCPY2D *c)
{
	return (struct shape){
		.src = { c->srcType, base_of(c->srcType, c->srcHost, c->srcDevice), c->srcPitch, 0, c->srcX, c->srcY, 0 },
		.dst = { c->dstType, base_of(c->dstType, c->dstHost, c->dstDevice), c->dstPitch, 0, c->dstX, c->dstY, 0 },
		.width = c->width, .height = c->height, .depth = 1,
	};
}

static struct shape shape_of_3d(const CUDA_MEMCPY3D *c)
{
	return (struct shape){
		.src = { c->srcType, base_of(c->srcType, c->srcHost, c->srcDevice), c->srcPitch, c->srcHeight,
			 c->srcX, c->srcY, c->srcZ },
		.dst = { c->dstType, base_of(c->dstType, c->dstHost, c->dstDevice), c->dstPitch, c->dstHeight,
			 c->dstX, c->dstY, c->dstZ },
		.width = c->width, .height = c->height, .depth = c->depth,
	};
}

/* The address of row y of slice z. The server refuses a copy with addresses that overflow. */
static uint64_t row_address(const struct side *s, const struct shape *of, uint64_t y, uint64_t z)
{
	const uint64_t pitch = s->pitch == 0 ? of->width : s->pitch, rows = s->rows == 0 ? of->height : s->rows;

	return s->base + s->x + pitch * (s->y + y + rows * (s->z + z));
}

static bool is_empty(const struct shape *s)
{
	return s->width == 0 || s->height == 0 || s->depth == 0;
}

/* The server makes the same check for copies that it gets as a whole. */
static bool is_sound(const struct side *s, const struct shape *of)
{
	return (s->type == CU_MEMORYTYPE_HOST || s->type == CU_MEMORYTYPE_DEVICE || s->type == CU_MEMORYTYPE_UNIFIED) &&
	       (s->pitch == 0 || (s->x <= s->pitch && of->width <= s->pitch - s->x)) &&
	       (s->rows == 0 || (s->y <= s->rows && of->height <= s->rows - s->y));
}

/* Whether the call need not wait for this side: memory of a device, or pinned memory. */
static bool is_ready(const struct side *s, const struct shape *of)
{
	uint64_t begin, end;

	if (s->type != CU_MEMORYTYPE_HOST)
		return s->type != CU_MEMORYTYPE_UNIFIED;
	begin = row_address(s, of, 0, 0);
	end = row_address(s, of, of->height - 1, of->depth - 1) + of->width;
	return sing_is_reachable() && begin < end && sing_is_pinned(begin, end - begin, NULL);
}

/*
 * Copy row by row where the server may not read the process's memory. Returns whether that was done; then *r is the
 * result.
 */
static bool by_rows(const struct shape *s, CUstream stream, CUresult *r)
{
	const bool in = s->src.type == CU_MEMORYTYPE_HOST, out = s->dst.type == CU_MEMORYTYPE_HOST;

	if (sing_is_reachable() || (!in && !out))
		return false;
	*r = is_sound(&s->src, s) && is_sound(&s->dst, s) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	for (uint64_t z = 0; z < s->depth && *r == CUDA_SUCCESS; ++z)
		for (uint64_t y = 0; y < s->height && *r == CUDA_SUCCESS; ++y) {
			const uint64_t to = row_address(&s->dst, s, y, z), from = row_address(&s->src, s, y, z);

			if (in && out)
				memmove((void *)(uintptr_t)to, (void *)(uintptr_t)from, s->width);
			else if (in)
				*r = sing_copy_in(to, (void *)(uintptr_t)from, s->width, stream);
			else
				*r = sing_copy_out((void *)(uintptr_t)to, from, s->width, stream);
		}
	return true;
}

/*
 * Carry out a copy. copy is the program's struct, of size bytes; shape has the same facts in the form that all such
 * copies share.
 */
static CUresult run_copy(uint32_t op, const void *copy, size_t size, const struct shape *shape, CUstream stream, bool async)
{
	unsigned char message[sizeof(CUDA_MEMCPY3D) + 8];
	size_t got;
	CUresult r = sing_context_check();
	int did;

	if (r != CUDA_SUCCESS || is_empty(shape))
		return r;
	(void)sing_put(sing_put(message, copy, size), &stream, 8);
	if (async && (sing_copy_is_captured(stream) || (is_ready(&shape->src, shape) && is_ready(&shape->dst, shape))))
		did = sing_post(op, message, size + 8);
	else if (by_rows(shape, stream, &r))
		return r;
	else
		did = sing_call(op, message, size + 8, NULL, 0, &got);
	return did < 0 ? CUDA_ERROR_UNKNOWN : did;
}

static CUresult run_flat(const CUDA_MEMCPY2D *copy, CUstream stream, bool async)
{
	CUDA_MEMCPY2D plain;
	struct shape shape;
	CUresult r;

	if (copy == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	plain = *copy;
	r = resolve_flat(&plain);
	if (r != CUDA_SUCCESS)
		return r;
	shape = shape_of_2d(&plain);
	return run_copy(SING_OP_cuMemcpy2DAsync_v2, &plain, sizeof(plain), &shape, stream, async);
}

static CUresult run_solid(uint32_t op, const CUDA_MEMCPY3D *copy, CUstream stream, bool async)
{
	CUDA_MEMCPY3D plain;
	struct shape shape;
	CUresult r;

	if (copy == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	plain = *copy;
	r = resolve_solid(&plain);
	if (r != CUDA_SUCCESS)
		return r;
	shape = shape_of_3d(&plain);
	return run_copy(op, &plain, sizeof(plain), &shape, stream, async);
}

static CUstream or_thread(CUstream stream)
{
	return stream == NULL ? SING_THREAD_STREAM : stream;
}

CUresult sing_cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy)
{
	return run_flat(copy, NULL, false);
}
SING_PUBLIC(cuMemcpy2D_v2);

CUresult sing_cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *copy)
{
	return run_flat(copy, SING_THREAD_STREAM, false);
}
SING_PUBLIC(cuMemcpy2D_v2_ptds);

CUresult sing_cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy)
{
	return run_flat(copy, NULL, false);
}
SING_PUBLIC(cuMemcpy2DUnaligned_v2);

CUresult sing_cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *copy)
{
	return run_flat(copy, SING_THREAD_STREAM, false);
}
SING_PUBLIC(cuMemcpy2DUnaligned_v2_ptds);

CUresult sing_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream)
{
	return run_flat(copy, stream, true);
}
SING_PUBLIC(cuMemcpy2DAsync_v2);

CUresult sing_cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D *copy, CUstream stream)
{
	return run_flat(copy, or_thread(stream), true);
}
SING_PUBLIC(cuMemcpy2DAsync_v2_ptsz);

CUresult sing_cuMemcpy3D_v2(const CUDA_MEMCPY3D *copy)
{
	return run_solid(SING_OP_cuMemcpy3DAsync_v2, copy, NULL, false);
}
SING_PUBLIC(cuMemcpy3D_v2);

CUresult sing_cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D *copy)
{
	return run_solid(SING_OP_cuMemcpy3DAsync_v2, copy, SING_THREAD_STREAM, false);
}
SING_PUBLIC(cuMemcpy3D_v2_ptds);

CUresult sing_cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *copy, CUstream stream)
{
	return run_solid(SING_OP_cuMemcpy3DAsync_v2, copy, stream, true);
}
SING_PUBLIC(cuMemcpy3DAsync_v2);

CUresult sing_cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D *copy, CUstream stream)
{
	return run_solid(SING_OP_cuMemcpy3DAsync_v2, copy, or_thread(stream), true);
}
SING_PUBLIC(cuMemcpy3DAsync_v2_ptsz);

static CUresult run_peer(const CUDA_MEMCPY3D_PEER *copy, CUstream stream, bool async)
{
	CUDA_MEMCPY3D same;

	if (copy == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&same, copy, sizeof(same));
	return run_solid(SING_OP_cuMemcpy3DPeerAsync, &same, stream, async);
}

CUresult sing_cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *copy)
{
	return run_peer(copy, NULL, false);
}
SING_PUBLIC(cuMemcpy3DPeer);

CUresult sing_cuMemcpy3DPeer_ptds(const CUDA_MEMCPY3D_PEER *copy)
{
	return run_peer(copy, SING_THREAD_STREAM, false);
}
SING_PUBLIC(cuMemcpy3DPeer_ptds);

CUresult sing_cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *copy, CUstream stream)
{
	return run_peer(copy, stream, true);
}
SING_PUBLIC(cuMemcpy3DPeerAsync);

CUresult sing_cuMemcpy3DPeerAsync_ptsz(const CUDA_MEMCPY3D_PEER *copy, CUstream stream)
{
	return run_peer(copy, or_thread(stream), true);
}
SING_PUBLIC(cuMemcpy3DPeerAsync_ptsz);
