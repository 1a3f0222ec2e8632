// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Attributes of memory pools: some values have 4 bytes and some 8. */
#include "gen_abi.h"

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
