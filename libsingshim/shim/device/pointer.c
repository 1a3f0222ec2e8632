// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* The facts of an address: the shim knows them for pinned memory, and asks the server for all other memory. */
#include "attach.h"
#include "context.h"
#include "gen_abi.h"
#include "hostmem.h"

#include <string.h>

enum { NO_DEVICE = -2 };

struct facts {
	unsigned int type; /* 0: not allocated */
	bool mapped;	   /* kernels may follow the address */
	bool managed;	   /* the program may follow the address, too */
	CUcontext context;
	int device;
	unsigned long long begin, id;
	size_t n;
	CUmemoryPool pool;
	bool shareable; /* by cuIpcGetMemHandle */
};

/* The kinds of memory that the server tells of: backend.AllocKind, and whether processes may share it. */
enum { POOLED = 2, SHAREABLE = 1 << 8 };

static CUresult learn_facts(struct facts *f, CUdeviceptr ptr)
{
	struct sing_pinned p;
	unsigned int kind = 0;
	unsigned long long n = 0;
	CUresult r;

	*f = (struct facts){ .device = NO_DEVICE };
	if (sing_is_pinned(ptr, 1, &p)) {
		*f = (struct facts){ p.managed ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST, p.shared, p.managed, (CUcontext)(uintptr_t)p.context,
				     p.device, p.begin, p.id, p.n, NULL, false };
		return CUDA_SUCCESS;
	}
	r = sing_send_pointer_facts(0, ptr, &kind, &f->context, &f->device, &f->begin, &n, &f->id, &f->pool);
	if (r == CUDA_ERROR_NOT_FOUND)
		return CUDA_SUCCESS;
	if (r != CUDA_SUCCESS)
		return r;
	f->type = CU_MEMORYTYPE_DEVICE;
	f->mapped = true;
	f->n = n;
	f->shareable = kind & SHAREABLE;
	if (kind != POOLED)
		f->pool = NULL;
	return CUDA_SUCCESS;
}

static CUresult put_value(void *data, const void *value, size_t n)
{
	memcpy(data, value, n);
	return CUDA_SUCCESS;
}

/* Booleans have four bytes, as callers expect. */
static CUresult put_bool(void *data, bool is)
{
	const unsigned int value = is;

	return put_value(data, &value, sizeof(value));
}

/* The ids of pinned memory and of a device's memory are never the same. */
static unsigned long long id_of(const struct facts *f)
{
	return f->type == CU_MEMORYTYPE_HOST || f->managed ? f->id << 1 | 1 : f->id << 1;
}

/* Write the value of an attribute that does not apply: NULL, or no device. */
static CUresult put_default(void *data, int attribute)
{
	static const unsigned long long zero;
	static const int none = NO_DEVICE;

	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		return put_value(data, &none, sizeof(none));
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_MAPPED:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		return put_value(data, &zero, 4);
	case CU_POINTER_ATTRIBUTE_CONTEXT:
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		return put_value(data, &zero, 8);
	}
	return CUDA_ERROR_INVALID_VALUE; /* no attribute, or peer-to-peer tokens, which are the driver's own */
}

static CUresult put_attribute(void *data, int attribute, CUdeviceptr ptr, const struct facts *f)
{
	const unsigned int access = f->mapped ? 3 : 0; /* read and write */
	const unsigned long long id = id_of(f);

	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		return put_value(data, &f->context, sizeof(f->context));
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		return put_value(data, &f->type, sizeof(f->type));
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		return f->mapped ? put_value(data, &ptr, sizeof(ptr)) : CUDA_ERROR_INVALID_VALUE;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		return f->type == CU_MEMORYTYPE_HOST || f->managed ? put_value(data, &ptr, sizeof(ptr)) : CUDA_ERROR_INVALID_VALUE;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		return put_value(data, &id, sizeof(id));
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		return put_value(data, &f->device, sizeof(f->device));
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		return put_value(data, &f->begin, sizeof(f->begin));
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		return put_value(data, &f->n, sizeof(f->n));
	case CU_POINTER_ATTRIBUTE_MAPPED:
		return put_bool(data, f->mapped);
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		return put_bool(data, f->managed);
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		return put_bool(data, f->shareable);
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		return put_value(data, &access, sizeof(access));
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		return put_value(data, &f->pool, sizeof(f->pool));
	}
	/* All other attributes are false or absent for all memory of the shim. */
	return put_default(data, attribute);
}

CUresult sing_cuPointerGetAttribute(void **data, int attribute, CUdeviceptr ptr)
{
	struct facts f;
	CUresult r;

	if (!sing_is_initialized())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (data == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = learn_facts(&f, ptr);
	if (r != CUDA_SUCCESS)
		return r;
	return f.type == 0 ? CUDA_ERROR_INVALID_VALUE : put_attribute(data, attribute, ptr, &f);
}
SING_PUBLIC(cuPointerGetAttribute);

/*
 * Several attributes at once; for memory that is not allocated, and for an attribute that does not apply,
 * the value is NULL, without an error.
 */
CUresult sing_cuPointerGetAttributes(unsigned int n, void *attributes, void **data, CUdeviceptr ptr)
{
	const int *wanted = attributes;
	struct facts f;
	CUresult r;

	if (!sing_is_initialized())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (n == 0 || attributes == NULL || data == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = learn_facts(&f, ptr);
	for (unsigned int i = 0; i < n && r == CUDA_SUCCESS; ++i) {
		if (data[i] == NULL)
			return CUDA_ERROR_INVALID_VALUE;
		if (f.type == 0 || put_attribute(data[i], wanted[i], ptr, &f) != CUDA_SUCCESS)
			r = put_default(data[i], wanted[i]);
	}
	return r;
}
SING_PUBLIC(cuPointerGetAttributes);

CUresult sing_cuPointerSetAttribute(void *value, int attribute, CUdeviceptr ptr)
{
	unsigned int on;

	if (!sing_is_initialized())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (value == NULL || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return CUDA_ERROR_INVALID_VALUE;
	if (sing_is_pinned(ptr, 1, NULL))
		return CUDA_SUCCESS; /* copies that are not asynchronous are over when they return */
	memcpy(&on, value, sizeof(on));
	return sing_send_pointer_set(0, ptr, attribute, on);
}
SING_PUBLIC(cuPointerSetAttribute);
