// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Texture and surface objects. An object is the address of a descriptor in the device's memory, which the server writes and the
 * instructions of a kernel read. So kernels get an object like any other number, and a restore brings the descriptor back
 * like any other memory.
 */
#include "array.h"
#include "attach.h"
#include "context.h"
#include "refusal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { ARRAY = 0, MIPMAPPED, LINEAR, PITCHED };		       /* CUresourcetype */
enum { WRAP = 0, CLAMP, MIRROR, BORDER };		       /* CUaddress_mode */
enum { READ_AS_INTEGER = 1, NORMALIZED = 2, TRILINEAR = 0x20 }; /* CU_TRSF_…; textures have a single level: the last has no effect */
enum { DESCRIPTOR = 128 };

/* CUDA_RESOURCE_DESC. */
struct resource {
	int type;
	union {
		CUarray array;
		struct {
			CUdeviceptr at;
			int format;
			unsigned int channels;
			size_t bytes;
		} linear;
		struct {
			CUdeviceptr at;
			int format;
			unsigned int channels;
			size_t width, height, pitch;
		} pitched;
		int reserved[32];
	};
	unsigned int flags;
};

/* CUDA_TEXTURE_DESC. */
struct sampling {
	int address[3], filter;
	unsigned int flags, anisotropy;
	int level_filter;
	float level_bias, level_low, level_high, border[4];
	int reserved[12];
};

_Static_assert(sizeof(struct resource) == 144 && sizeof(struct sampling) == 104, "as the program has them");

struct object {
	struct object *next;
	CUdeviceptr at;
	uint64_t context;
	bool surface;
	struct resource resource;
	struct sampling sampling;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct object *objects;

/* The place in the list where an object is, or the list's end. Caller holds lock. */
static struct object **find_place(CUdeviceptr at, bool surface)
{
	struct object **p = &objects;

	while (*p != NULL && ((*p)->at != at || (*p)->surface != surface))
		p = &(*p)->next;
	return p;
}

static void link_object(struct object *o)
{
	pthread_mutex_lock(&lock);
	o->next = objects;
	objects = o;
	pthread_mutex_unlock(&lock);
}

void sing_objects_ended(uint64_t context)
{
	pthread_mutex_lock(&lock);
	for (struct object **p = &objects; *p != NULL;) {
		struct object *const o = *p;

		if (o->context != context) {
			p = &o->next;
			continue;
		}
		*p = o->next;
		free(o);
	}
	pthread_mutex_unlock(&lock);
}

static CUresult describe_linear(const struct resource *r, sing_texture_shape *shape)
{
	const size_t texel = sing_format_bytes(r->linear.format) * r->linear.channels;

	if (texel == 0 || r->linear.bytes < texel || r->linear.bytes / texel > UINT32_MAX || r->linear.at == 0)
		return CUDA_ERROR_INVALID_VALUE;
	*shape = (sing_texture_shape){
		.base = r->linear.at, .width = (unsigned int)(r->linear.bytes / texel), .format = r->linear.format,
		.channels = r->linear.channels, .flags = singTextureBuffer,
	};
	return CUDA_SUCCESS;
}

static CUresult describe_pitched(const struct resource *r, sing_texture_shape *shape)
{
	const size_t texel = sing_format_bytes(r->pitched.format) * r->pitched.channels;

	if (texel == 0 || r->pitched.width == 0 || r->pitched.height == 0 || r->pitched.at == 0 || r->pitched.width > UINT32_MAX ||
	    r->pitched.height > UINT32_MAX || r->pitched.pitch / texel < r->pitched.width)
		return CUDA_ERROR_INVALID_VALUE;
	*shape = (sing_texture_shape){
		.base = r->pitched.at, .pitch = r->pitched.pitch, .width = (unsigned int)r->pitched.width,
		.height = (unsigned int)r->pitched.height, .format = r->pitched.format, .channels = r->pitched.channels,
	};
	return CUDA_SUCCESS;
}

static CUresult describe_resource(const char *symbol, const struct resource *r, sing_texture_shape *shape)
{
	struct sing_array a;

	if (r->flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	switch (r->type) {
	case ARRAY:
		if (!sing_array_find(r->array, &a))
			return CUDA_ERROR_INVALID_HANDLE;
		sing_array_describe(&a, shape);
		return CUDA_SUCCESS;
	case LINEAR:
		return describe_linear(r, shape);
	case PITCHED:
		return describe_pitched(r, shape);
	case MIPMAPPED:
		return sing_textures_missed(symbol);
	}
	return CUDA_ERROR_INVALID_VALUE;
}

/* Add to a texture's description how the texture is read. */
static CUresult describe_sampling(const char *symbol, const struct sampling *s, sing_texture_shape *shape)
{
	if (s->filter != 0 && s->filter != 1)
		return CUDA_ERROR_INVALID_VALUE;
	if (s->flags & ~(unsigned int)(READ_AS_INTEGER | NORMALIZED | TRILINEAR))
		return sing_textures_missed(symbol); /* sRGB, cubes without seams */
	for (int k = 0; k < 3; ++k) {
		if (s->address[k] < WRAP || s->address[k] > BORDER)
			return CUDA_ERROR_INVALID_VALUE;
		shape->address[k] = s->address[k];
	}
	shape->flags |= (s->filter == 1 ? singTextureFilter : 0) | (s->flags & READ_AS_INTEGER ? singTextureIntegers : 0) |
			(s->flags & NORMALIZED ? singTextureNormalized : 0);
	memcpy(shape->border, s->border, sizeof(s->border));
	return CUDA_SUCCESS;
}

/* Have the server write a descriptor, and keep the object in the list. */
static CUresult create_object(const char *symbol, const struct object *from, const sing_texture_shape *shape, CUdeviceptr *at)
{
	struct object *const made = malloc(sizeof(*made));
	CUresult r;

	if (made == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*made = *from;
	r = sing_send_texture_write(0, 0, shape);
	if (r == CUDA_SUCCESS)
		r = sing_cuMemAlloc_v2(&made->at, DESCRIPTOR);
	if (r == CUDA_SUCCESS) {
		r = sing_send_texture_write(0, made->at, shape);
		if (r != CUDA_SUCCESS)
			(void)sing_cuMemFree_v2(made->at);
	}
	if (r != CUDA_SUCCESS) {
		free(made);
		return r == CUDA_ERROR_NOT_SUPPORTED ? sing_textures_missed(symbol) : r;
	}
	*at = made->at;
	made->context = sing_current->handle;
	link_object(made);
	return CUDA_SUCCESS;
}

CUresult sing_cuTexObjectCreate(CUtexObject *object, void *resource, void *texture, void *view)
{
	struct object made = { 0 };
	sing_texture_shape shape;
	CUdeviceptr at = 0;
	CUresult r = sing_context_check();

	if (r != CUDA_SUCCESS)
		return r;
	if (object == NULL || resource == NULL || texture == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (view != NULL)
		return SING_REFUSE("cuTexObjectCreate with a view of the resource", "textures show the whole resource, as it is");
	memcpy(&made.resource, resource, sizeof(made.resource));
	memcpy(&made.sampling, texture, sizeof(made.sampling));
	r = describe_resource("cuTexObjectCreate", &made.resource, &shape);
	if (r == CUDA_SUCCESS)
		r = describe_sampling("cuTexObjectCreate", &made.sampling, &shape);
	if (r == CUDA_SUCCESS)
		r = create_object("cuTexObjectCreate", &made, &shape, &at);
	if (r == CUDA_SUCCESS)
		*object = (CUtexObject)at;
	return r;
}
SING_PUBLIC(cuTexObjectCreate);

CUresult sing_cuSurfObjectCreate(CUsurfObject *object, void *resource)
{
	struct object made = { .surface = true };
	sing_texture_shape shape;
	struct sing_array a;
	CUdeviceptr at = 0;
	CUresult r = sing_context_check();

	if (r != CUDA_SUCCESS)
		return r;
	if (object == NULL || resource == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&made.resource, resource, sizeof(made.resource));
	if (made.resource.type != ARRAY || !sing_array_find(made.resource.array, &a))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!(a.shape.flags & SING_ARRAY_SURFACE))
		return CUDA_ERROR_INVALID_VALUE;
	r = describe_resource("cuSurfObjectCreate", &made.resource, &shape);
	shape.flags = singTextureSurface;
	if (r == CUDA_SUCCESS)
		r = create_object("cuSurfObjectCreate", &made, &shape, &at);
	if (r == CUDA_SUCCESS)
		*object = (CUsurfObject)at;
	return r;
}
SING_PUBLIC(cuSurfObjectCreate);

static CUresult destroy_object(CUdeviceptr at, bool surface)
{
	struct object **p, *gone;
	CUresult r = sing_context_check();

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&lock);
	p = find_place(at, surface);
	gone = *p;
	if (gone != NULL)
		*p = gone->next;
	pthread_mutex_unlock(&lock);
	if (gone == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = sing_cuMemFree_v2(gone->at);
	if (r == CUDA_SUCCESS)
		free(gone);
	else
		link_object(gone); /* a capture does not allow the call */
	return r;
}

CUresult sing_cuTexObjectDestroy(CUtexObject object)
{
	return destroy_object((CUdeviceptr)object, false);
}
SING_PUBLIC(cuTexObjectDestroy);

CUresult sing_cuSurfObjectDestroy(CUsurfObject object)
{
	return destroy_object((CUdeviceptr)object, true);
}
SING_PUBLIC(cuSurfObjectDestroy);

/* Copy a description that an object was made of: of its resource, or else of its sampling. */
static CUresult get_description(void *desc, CUdeviceptr at, bool surface, bool resource)
{
	const struct object *o;
	CUresult r = sing_context_check();

	if (r != CUDA_SUCCESS)
		return r;
	if (desc == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	o = *find_place(at, surface);
	if (o == NULL)
		r = CUDA_ERROR_INVALID_VALUE;
	else if (resource)
		memcpy(desc, &o->resource, sizeof(o->resource));
	else
		memcpy(desc, &o->sampling, sizeof(o->sampling));
	pthread_mutex_unlock(&lock);
	return r;
}

CUresult sing_cuTexObjectGetResourceDesc(void **desc, CUtexObject object)
{
	return get_description(desc, (CUdeviceptr)object, false, true);
}
SING_PUBLIC(cuTexObjectGetResourceDesc);

CUresult sing_cuTexObjectGetTextureDesc(void **desc, CUtexObject object)
{
	return get_description(desc, (CUdeviceptr)object, false, false);
}
SING_PUBLIC(cuTexObjectGetTextureDesc);

CUresult sing_cuSurfObjectGetResourceDesc(void **desc, CUsurfObject object)
{
	return get_description(desc, (CUdeviceptr)object, true, true);
}
SING_PUBLIC(cuSurfObjectGetResourceDesc);

/* No object has a view. */
CUresult sing_cuTexObjectGetResourceViewDesc(void **desc, CUtexObject object)
{
	struct sampling unused;
	const CUresult r = get_description(desc == NULL ? NULL : &unused, (CUdeviceptr)object, false, false);

	return r == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : r;
}
SING_PUBLIC(cuTexObjectGetResourceViewDesc);
