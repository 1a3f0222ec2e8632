// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Reductions that multiply each rank's part by a factor, and memory that NCCL allocates. */
#include "nccl.h"

#include <stdlib.h>
#include <string.h>

struct sing_redop {
	struct sing_redop *next;
	ncclRedOp_t op;
	int type;
};

bool sing_redop_is(struct sing_comm *c, ncclRedOp_t op, int type)
{
	const struct sing_redop *o;

	if (op < ncclNumOps)
		return op >= 0;
	pthread_mutex_lock(&c->lock);
	for (o = c->redops; o != NULL && o->op != op; o = o->next)
		;
	pthread_mutex_unlock(&c->lock);
	return o != NULL && o->type == type;
}

ncclResult_t sing_ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, int type, int residence, ncclComm_t comm)
{
	unsigned char value[8];
	const unsigned int size = sing_nccl_size(type);
	struct sing_redop *o;
	struct sing_comm *c;
	ncclResult_t r = sing_comm_ready(comm, &c);

	if (r != ncclSuccess)
		return r;
	if (op == NULL || scalar == NULL || size == 0)
		return sing_nccl_fail(ncclInvalidArgument, "ncclRedOpCreatePreMulSum: type %d, or NULL", type);
	if (residence != ncclScalarDevice && residence != ncclScalarHostImmediate)
		return sing_nccl_fail(ncclInvalidArgument, "ncclRedOpCreatePreMulSum: a scalar in %d", residence);
	o = malloc(sizeof(*o));
	if (o == NULL)
		return sing_nccl_fail(ncclSystemError, "no memory");
	/* A scalar in the device's memory is read when the reduction is used. */
	if (residence == ncclScalarHostImmediate)
		memcpy(value, scalar, size);
	r = residence == ncclScalarHostImmediate ? sing_send_redop_create(0, op, value, size, 0, type, residence, comm) :
						   sing_send_redop_create(0, op, NULL, 0, (CUdeviceptr)(uintptr_t)scalar, type, residence, comm);
	if (r != ncclSuccess) {
		free(o);
		return sing_nccl_result(r);
	}
	*o = (struct sing_redop){ .op = *op, .type = type };
	pthread_mutex_lock(&c->lock);
	o->next = c->redops;
	c->redops = o;
	pthread_mutex_unlock(&c->lock);
	return ncclSuccess;
}
SING_PUBLIC(ncclRedOpCreatePreMulSum);

ncclResult_t sing_ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
	struct sing_redop **at, *o;
	struct sing_comm *c = sing_comm_find(comm);

	if (c == NULL)
		return ncclInvalidArgument;
	pthread_mutex_lock(&c->lock);
	for (at = &c->redops; *at != NULL && (*at)->op != op; at = &(*at)->next)
		;
	o = *at;
	if (o != NULL)
		*at = o->next;
	pthread_mutex_unlock(&c->lock);
	if (o == NULL)
		return sing_nccl_fail(ncclInvalidArgument, "ncclRedOpDestroy: %d was not made, or was destroyed", op);
	free(o);
	return sing_group_redop_gone(op, comm);
}
SING_PUBLIC(ncclRedOpDestroy);

/* NCCL's memory is ordinary memory of the device here. */
ncclResult_t sing_ncclMemAlloc(CUdeviceptr *ptr, size_t n)
{
	int r;

	if (ptr == NULL || n == 0)
		return sing_nccl_fail(ncclInvalidArgument, "ncclMemAlloc: nothing");
	r = sing_cuMemAlloc_v2(ptr, n);
	return r == CUDA_SUCCESS ? ncclSuccess : sing_nccl_fail(ncclUnhandledCudaError, "ncclMemAlloc: error %d of the driver", r);
}
SING_PUBLIC(ncclMemAlloc);

ncclResult_t sing_ncclMemFree(CUdeviceptr ptr)
{
	const int r = ptr == 0 ? CUDA_SUCCESS : sing_cuMemFree_v2(ptr);

	return r == CUDA_SUCCESS ? ncclSuccess : sing_nccl_fail(ncclUnhandledCudaError, "ncclMemFree: error %d of the driver", r);
}
SING_PUBLIC(ncclMemFree);
