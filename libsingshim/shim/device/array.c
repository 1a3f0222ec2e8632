// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Arrays. The layout is known: a software GPU reads an array as the rows that it consists of. So copies are copies of
 * that memory, and an array is captured and restored as memory is. The array's format and size are in the program's own
 * memory, which is captured with it.
 */
#include "array.h"

#include "attach.h"
#include "context.h"
#include "copy.h"
#include "refusal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* CUDA_ARRAY_DESCRIPTOR. */
struct flat_shape {
	size_t width, height;
	int format;
	unsigned int channels;
};

_Static_assert(sizeof(struct flat_shape) == 24 && sizeof(struct sing_array_shape) == 40, "as the program has them");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sing_array *arrays;

size_t sing_format_bytes(int format)
{
	switch (format) {
	case 0x01: /* unsigned, of 8 bits */
	case 0x08: /* signed */
		return 1;
	case 0x02:
	case 0x09:
	case 0x10: /* floating point */
		return 2;
	case 0x03:
	case 0x0a:
	case 0x20:
		return 4;
	}
	return 0;
}

CUresult sing_textures_missed(const char *symbol)
{
	static _Atomic bool said;

	if (!atomic_exchange_explicit(&said, true, memory_order_relaxed))
		sing_missed(symbol, "software GPUs have textures, surfaces and arrays, but none of this kind; real devices have none that are captured");
	return CUDA_ERROR_NOT_SUPPORTED;
}

bool sing_array_find(CUarray handle, struct sing_array *what)
{
	const struct sing_array *a;
	bool is;

	pthread_mutex_lock(&lock);
	for (a = arrays; a != NULL && (const void *)a != (const void *)handle; a = a->next)
		;
	is = a != NULL && a->context != 0;
	if (is)
		*what = *a;
	pthread_mutex_unlock(&lock);
	return is;
}

/* The entries stay until the program destroys the arrays, so that no other array gets the handle before. */
void sing_arrays_ended(uint64_t context)
{
	pthread_mutex_lock(&lock);
	for (struct sing_array *a = arrays; a != NULL; a = a->next)
		if (a->context == context)
			a->context = 0;
	pthread_mutex_unlock(&lock);
}

bool sing_array_holds(const struct sing_array *a, const size_t at[3], const size_t extent[3])
{
	const size_t all[3] = { a->pitch, a->rows, a->slices };

	for (int k = 0; k < 3; ++k)
		if (at[k] > all[k] || extent[k] > all[k] - at[k])
			return false;
	return true;
}

void sing_array_describe(const struct sing_array *a, sing_texture_shape *shape)
{
	const struct sing_array_shape *const s = &a->shape;
	const bool layered = s->flags & SING_ARRAY_LAYERED;

	*shape = (sing_texture_shape){
		.base = a->base, .pitch = a->pitch, .slice = a->pitch * a->rows, .width = (unsigned int)s->width,
		.height = (unsigned int)s->height, .depth = layered ? 0 : (unsigned int)s->depth, .layers = layered ? (unsigned int)s->depth : 0,
		.format = s->format, .channels = s->channels,
	};
}

/*
 * CUDA_SUCCESS if an array of this shape can be made. A kind of array that the shim does not support is reported
 * with the symbol.
 */
static CUresult check_shape(const char *symbol, const struct sing_array_shape *s)
{
	const bool layered = s->flags & SING_ARRAY_LAYERED;

	if (s->width == 0 || s->width > UINT32_MAX || s->height > UINT32_MAX || s->depth > UINT32_MAX ||
	    (s->channels != 1 && s->channels != 2 && s->channels != 4))
		return CUDA_ERROR_INVALID_VALUE;
	if ((layered && s->depth == 0) || (!layered && s->depth > 0 && s->height == 0))
		return CUDA_ERROR_INVALID_VALUE;
	if (sing_format_bytes(s->format) == 0 || s->flags & ~(unsigned int)(SING_ARRAY_LAYERED | SING_ARRAY_SURFACE))
		return sing_textures_missed(symbol); /* cubes, gathers, sparse arrays, compressed formats */
	return CUDA_SUCCESS;
}

static void link_array(struct sing_array *a)
{
	pthread_mutex_lock(&lock);
	a->next = arrays;
	arrays = a;
	pthread_mutex_unlock(&lock);
}

static CUresult create_array(const char *symbol, CUarray *array, const struct sing_array_shape *shape)
{
	struct sing_array *made;
	sing_texture_shape described;
	size_t n;
	CUresult r = sing_context_check();

	if (r != CUDA_SUCCESS)
		return r;
	if (array == NULL || shape == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = check_shape(symbol, shape);
	if (r != CUDA_SUCCESS)
		return r;
	made = calloc(1, sizeof(*made));
	if (made == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	made->shape = *shape;
	made->pitch = shape->width * shape->channels * sing_format_bytes(shape->format);
	made->rows = shape->height == 0 ? 1 : shape->height;
	made->slices = shape->depth == 0 ? 1 : shape->depth;
	sing_array_describe(made, &described);
	/* The server knows which textures the devices support. */
	r = sing_send_texture_write(0, 0, &described);
	if (r == CUDA_ERROR_NOT_SUPPORTED)
		r = sing_textures_missed(symbol);
	if (r == CUDA_SUCCESS && (__builtin_mul_overflow(made->pitch, made->rows, &n) || __builtin_mul_overflow(n, made->slices, &n)))
		r = CUDA_ERROR_OUT_OF_MEMORY;
	if (r == CUDA_SUCCESS)
		r = sing_cuMemAlloc_v2(&made->base, n);
	if (r != CUDA_SUCCESS) {
		free(made);
		return r;
	}
	made->context = sing_current->handle;
	link_array(made);
	*array = (CUarray)(void *)made;
	return CUDA_SUCCESS;
}

CUresult sing_cuArrayCreate_v2(CUarray *array, void *desc)
{
	const struct flat_shape *const f = desc;
	struct sing_array_shape shape;

	if (f == NULL)
		return create_array("cuArrayCreate_v2", array, NULL);
	shape = (struct sing_array_shape){ .width = f->width, .height = f->height, .format = f->format, .channels = f->channels };
	return create_array("cuArrayCreate_v2", array, &shape);
}
SING_PUBLIC(cuArrayCreate_v2);

CUresult sing_cuArray3DCreate_v2(CUarray *array, void *desc)
{
	return create_array("cuArray3DCreate_v2", array, desc);
}
SING_PUBLIC(cuArray3DCreate_v2);

CUresult sing_cuArrayDestroy(CUarray array)
{
	struct sing_array **p, *gone;
	CUresult r = sing_context_check();

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&lock);
	for (p = &arrays; *p != NULL && (void *)*p != (void *)array; p = &(*p)->next)
		;
	gone = *p;
	if (gone != NULL)
		*p = gone->next;
	pthread_mutex_unlock(&lock);
	if (gone == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	if (gone->context == 0)
		r = CUDA_ERROR_CONTEXT_IS_DESTROYED;
	else
		r = sing_cuMemFree_v2(gone->base);
	if (r == CUDA_SUCCESS || gone->context == 0)
		free(gone);
	else
		link_array(gone); /* a capture does not allow the call */
	return r;
}
SING_PUBLIC(cuArrayDestroy);

CUresult sing_cuArray3DGetDescriptor_v2(void **desc, CUarray array)
{
	struct sing_array a;
	const CUresult r = sing_context_check();

	if (r != CUDA_SUCCESS)
		return r;
	if (desc == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sing_array_find(array, &a))
		return CUDA_ERROR_INVALID_HANDLE;
	memcpy(desc, &a.shape, sizeof(a.shape));
	return CUDA_SUCCESS;
}
SING_PUBLIC(cuArray3DGetDescriptor_v2);

CUresult sing_cuArrayGetDescriptor_v2(void **desc, CUarray array)
{
	struct sing_array_shape s;
	struct flat_shape f;
	const CUresult r = desc == NULL ? CUDA_ERROR_INVALID_VALUE : sing_cuArray3DGetDescriptor_v2((void *)&s, array);

	if (r != CUDA_SUCCESS)
		return r;
	f = (struct flat_shape){ s.width, s.height, s.format, s.channels };
	memcpy(desc, &f, sizeof(f));
	return CUDA_SUCCESS;
}
SING_PUBLIC(cuArrayGetDescriptor_v2);

/* Where n bytes of an array are, from an offset on; 0 if they are not in the array. */
static CUdeviceptr bytes_of(CUarray array, size_t at, size_t n)
{
	struct sing_array a;
	size_t all;

	if (!sing_array_find(array, &a))
		return 0;
	all = a.pitch * a.rows * a.slices;
	return at <= all && n <= all - at ? a.base + at : 0;
}

/* Copies of bytes: each is a copy of the array's memory. */
#define TO_ARRAY(name, as, from)                                                                 \
	CUresult sing_##name(CUarray dst, size_t at, from src, size_t n)                         \
	{                                                                                        \
		const CUdeviceptr to = bytes_of(dst, at, n);                                     \
		return to == 0 ? CUDA_ERROR_INVALID_VALUE : sing_##as(to, src, n);               \
	}                                                                                        \
	SING_PUBLIC(name)
#define FROM_ARRAY(name, as, to)                                                                 \
	CUresult sing_##name(to dst, CUarray src, size_t at, size_t n)                           \
	{                                                                                        \
		const CUdeviceptr from = bytes_of(src, at, n);                                   \
		return from == 0 ? CUDA_ERROR_INVALID_VALUE : sing_##as(dst, from, n);           \
	}                                                                                        \
	SING_PUBLIC(name)

TO_ARRAY(cuMemcpyDtoA_v2, cuMemcpyDtoD_v2, CUdeviceptr);
TO_ARRAY(cuMemcpyDtoA_v2_ptds, cuMemcpyDtoD_v2_ptds, CUdeviceptr);
TO_ARRAY(cuMemcpyHtoA_v2, cuMemcpyHtoD_v2, void *);
TO_ARRAY(cuMemcpyHtoA_v2_ptds, cuMemcpyHtoD_v2_ptds, void *);
FROM_ARRAY(cuMemcpyAtoD_v2, cuMemcpyDtoD_v2, CUdeviceptr);
FROM_ARRAY(cuMemcpyAtoD_v2_ptds, cuMemcpyDtoD_v2_ptds, CUdeviceptr);
FROM_ARRAY(cuMemcpyAtoH_v2, cuMemcpyDtoH_v2, void *);
FROM_ARRAY(cuMemcpyAtoH_v2_ptds, cuMemcpyDtoH_v2_ptds, void *);

#define BETWEEN_ARRAYS(name, as)                                                                      \
	CUresult sing_##name(CUarray dst, size_t to, CUarray src, size_t from, size_t n)              \
	{                                                                                             \
		const CUdeviceptr a = bytes_of(dst, to, n), b = bytes_of(src, from, n);               \
		return a == 0 || b == 0 ? CUDA_ERROR_INVALID_VALUE : sing_##as(a, b, n);              \
	}                                                                                             \
	SING_PUBLIC(name)

BETWEEN_ARRAYS(cuMemcpyAtoA_v2, cuMemcpyDtoD_v2);
BETWEEN_ARRAYS(cuMemcpyAtoA_v2_ptds, cuMemcpyDtoD_v2_ptds);

CUresult sing_cuMemcpyHtoAAsync_v2(CUarray dst, size_t at, void *src, size_t n, CUstream stream)
{
	const CUdeviceptr to = bytes_of(dst, at, n);

	return to == 0 ? CUDA_ERROR_INVALID_VALUE : sing_cuMemcpyHtoDAsync_v2(to, src, n, stream);
}
SING_PUBLIC(cuMemcpyHtoAAsync_v2);

CUresult sing_cuMemcpyHtoAAsync_v2_ptsz(CUarray dst, size_t at, void *src, size_t n, CUstream stream)
{
	return sing_cuMemcpyHtoAAsync_v2(dst, at, src, n, stream == NULL ? SING_THREAD_STREAM : stream);
}
SING_PUBLIC(cuMemcpyHtoAAsync_v2_ptsz);

CUresult sing_cuMemcpyAtoHAsync_v2(void *dst, CUarray src, size_t at, size_t n, CUstream stream)
{
	const CUdeviceptr from = bytes_of(src, at, n);

	return from == 0 ? CUDA_ERROR_INVALID_VALUE : sing_cuMemcpyDtoHAsync_v2(dst, from, n, stream);
}
SING_PUBLIC(cuMemcpyAtoHAsync_v2);

CUresult sing_cuMemcpyAtoHAsync_v2_ptsz(void *dst, CUarray src, size_t at, size_t n, CUstream stream)
{
	return sing_cuMemcpyAtoHAsync_v2(dst, src, at, n, stream == NULL ? SING_THREAD_STREAM : stream);
}
SING_PUBLIC(cuMemcpyAtoHAsync_v2_ptsz);
