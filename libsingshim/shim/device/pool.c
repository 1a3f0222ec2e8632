// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Attributes of memory pools: some values have 4 bytes and some 8. Pools by their location. */
#include "gen_abi.h"
#include "refusal.h"

/* 0: there is no such attribute. */
static size_t size_of(int attribute)
{
	switch (attribute) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		return sizeof(int);
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		return sizeof(unsigned long long);
	}
	return 0;
}

CUresult sing_cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value)
{
	const size_t size = size_of(attribute);

	if (value == NULL || size == 0)
		return CUDA_ERROR_INVALID_VALUE;
	return sing_send_pool_set(0, pool, attribute, size == sizeof(int) ? (unsigned long long)*(const int *)value : *(const unsigned long long *)value);
}
SING_PUBLIC(cuMemPoolSetAttribute);

CUresult sing_cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void **value)
{
	const size_t size = size_of(attribute);
	unsigned long long got = 0;
	CUresult r;

	if (value == NULL || size == 0)
		return CUDA_ERROR_INVALID_VALUE;
	r = sing_send_pool_get(0, pool, attribute, &got);
	if (r != CUDA_SUCCESS)
		return r;
	if (size == sizeof(int))
		*(int *)(void *)value = (int)got;
	else
		*(unsigned long long *)(void *)value = got;
	return CUDA_SUCCESS;
}
SING_PUBLIC(cuMemPoolGetAttribute);

static const char elsewhere[] = "there are pools of a device's own memory only, not of the host's and not of managed memory";

/* Whether the location is there, and the type is one that memory there can have. */
static bool is_known(const CUmemLocation *where, int type)
{
	return where != NULL && where->type >= CU_MEM_LOCATION_TYPE_DEVICE && where->type <= CU_MEM_LOCATION_TYPE_INVISIBLE &&
	       (type == CU_MEM_ALLOCATION_TYPE_PINNED || type == CU_MEM_ALLOCATION_TYPE_MANAGED);
}

static bool is_of_device(const CUmemLocation *where, int type)
{
	return where->type == CU_MEM_LOCATION_TYPE_DEVICE && type == CU_MEM_ALLOCATION_TYPE_PINNED;
}

CUresult sing_cuMemGetDefaultMemPool(CUmemoryPool *pool, const CUmemLocation *where, int type)
{
	if (!is_known(where, type))
		return CUDA_ERROR_INVALID_VALUE;
	return is_of_device(where, type) ? sing_cuDeviceGetDefaultMemPool(pool, where->id) : SING_REFUSE("cuMemGetDefaultMemPool", elsewhere);
}
SING_PUBLIC(cuMemGetDefaultMemPool);

CUresult sing_cuMemGetMemPool(CUmemoryPool *pool, const CUmemLocation *where, int type)
{
	if (!is_known(where, type))
		return CUDA_ERROR_INVALID_VALUE;
	return is_of_device(where, type) ? sing_cuDeviceGetMemPool(pool, where->id) : SING_REFUSE("cuMemGetMemPool", elsewhere);
}
SING_PUBLIC(cuMemGetMemPool);

CUresult sing_cuMemSetMemPool(const CUmemLocation *where, int type, CUmemoryPool pool)
{
	if (!is_known(where, type))
		return CUDA_ERROR_INVALID_VALUE;
	return is_of_device(where, type) ? sing_cuDeviceSetMemPool(where->id, pool) : SING_REFUSE("cuMemSetMemPool", elsewhere);
}
SING_PUBLIC(cuMemSetMemPool);
