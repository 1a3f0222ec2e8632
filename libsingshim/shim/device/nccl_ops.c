// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Collectives, sends and receives. An error in an operation is reported at the call; group.c sends the
 * operation.
 */
#include "nccl.h"

static ncclResult_t check_op(const char *name, const struct sing_comm *c, const sing_nccl_op *op)
{
	const bool rooted = op->kind == singNcclReduce || op->kind == singNcclBroadcast || op->kind == singNcclGather ||
			    op->kind == singNcclScatter || op->kind >= singNcclSend;
	const bool all = op->kind == singNcclReduceScatter || op->kind == singNcclAllGather || op->kind == singNcclAlltoAll ||
			 op->kind == singNcclGather || op->kind == singNcclScatter;
	const unsigned int size = sing_nccl_size(op->type);
	size_t bytes;

	if (size == 0)
		return sing_nccl_fail(ncclInvalidArgument, "%s: %d is no type", name, op->type);
	if (rooted && (op->root < 0 || op->root >= c->ranks))
		return sing_nccl_fail(ncclInvalidArgument, "%s: rank %d of %d", name, op->root, c->ranks);
	if (__builtin_mul_overflow(op->count, (size_t)size * (all ? (size_t)c->ranks : 1), &bytes) || bytes > PTRDIFF_MAX)
		return sing_nccl_fail(ncclInvalidArgument, "%s: %zu elements", name, op->count);
	if (atomic_load(&c->state) == SING_COMM_FINAL)
		return sing_nccl_fail(ncclInvalidUsage, "%s: the communicator was finalized", name);
	return ncclSuccess;
}

static ncclResult_t issue_op(const char *name, sing_nccl_op op)
{
	struct sing_comm *c;
	ncclResult_t r = sing_comm_ready(op.comm, &c);

	if (r == ncclSuccess)
		r = check_op(name, c, &op);
	if (r == ncclSuccess && op.kind <= singNcclReduceScatter && !sing_redop_is(c, op.op, op.type))
		r = sing_nccl_fail(ncclInvalidArgument, "%s: %d is no reduction for type %d", name, op.op, op.type);
	/* A single send or receive would wait for a call that comes later. */
	if (r == ncclSuccess && op.kind >= singNcclSend && op.root == c->rank && !sing_group_open())
		r = sing_nccl_fail(ncclInvalidUsage, "%s: to or from oneself, outside a group", name);
	if (r != ncclSuccess)
		return sing_group_spoil(r);
	return sing_group_op(c, &op);
}

ncclResult_t sing_ncclAllReduce(CUdeviceptr src, CUdeviceptr dst, size_t n, int type, ncclRedOp_t op, ncclComm_t comm, CUstream stream)
{
	return issue_op("ncclAllReduce", (sing_nccl_op){ .kind = singNcclAllReduce, .type = type, .op = op, .count = n, .src = src,
						    .dst = dst, .comm = comm, .stream = stream });
}
SING_PUBLIC(ncclAllReduce);

ncclResult_t sing_ncclReduce(CUdeviceptr src, CUdeviceptr dst, size_t n, int type, ncclRedOp_t op, int root, ncclComm_t comm,
			     CUstream stream)
{
	return issue_op("ncclReduce", (sing_nccl_op){ .kind = singNcclReduce, .type = type, .op = op, .root = root, .count = n,
						 .src = src, .dst = dst, .comm = comm, .stream = stream });
}
SING_PUBLIC(ncclReduce);

ncclResult_t sing_ncclReduceScatter(CUdeviceptr src, CUdeviceptr dst, size_t n, int type, ncclRedOp_t op, ncclComm_t comm,
				    CUstream stream)
{
	return issue_op("ncclReduceScatter", (sing_nccl_op){ .kind = singNcclReduceScatter, .type = type, .op = op, .count = n,
							.src = src, .dst = dst, .comm = comm, .stream = stream });
}
SING_PUBLIC(ncclReduceScatter);

ncclResult_t sing_ncclBroadcast(CUdeviceptr src, CUdeviceptr dst, size_t n, int type, int root, ncclComm_t comm, CUstream stream)
{
	return issue_op("ncclBroadcast", (sing_nccl_op){ .kind = singNcclBroadcast, .type = type, .root = root, .count = n,
						    .src = src, .dst = dst, .comm = comm, .stream = stream });
}
SING_PUBLIC(ncclBroadcast);

ncclResult_t sing_ncclBcast(CUdeviceptr buffer, size_t n, int type, int root, ncclComm_t comm, CUstream stream)
{
	return issue_op("ncclBcast", (sing_nccl_op){ .kind = singNcclBroadcast, .type = type, .root = root, .count = n,
						.src = buffer, .dst = buffer, .comm = comm, .stream = stream });
}
SING_PUBLIC(ncclBcast);

ncclResult_t sing_ncclAllGather(CUdeviceptr src, CUdeviceptr dst, size_t n, int type, ncclComm_t comm, CUstream stream)
{
	return issue_op("ncclAllGather", (sing_nccl_op){ .kind = singNcclAllGather, .type = type, .count = n, .src = src,
						    .dst = dst, .comm = comm, .stream = stream });
}
SING_PUBLIC(ncclAllGather);

ncclResult_t sing_ncclAlltoAll(CUdeviceptr src, CUdeviceptr dst, size_t n, int type, ncclComm_t comm, CUstream stream)
{
	return issue_op("ncclAlltoAll", (sing_nccl_op){ .kind = singNcclAlltoAll, .type = type, .count = n, .src = src,
						   .dst = dst, .comm = comm, .stream = stream });
}
SING_PUBLIC(ncclAlltoAll);

ncclResult_t sing_ncclGather(CUdeviceptr src, CUdeviceptr dst, size_t n, int type, int root, ncclComm_t comm, CUstream stream)
{
	return issue_op("ncclGather", (sing_nccl_op){ .kind = singNcclGather, .type = type, .root = root, .count = n, .src = src,
						 .dst = dst, .comm = comm, .stream = stream });
}
SING_PUBLIC(ncclGather);

ncclResult_t sing_ncclScatter(CUdeviceptr src, CUdeviceptr dst, size_t n, int type, int root, ncclComm_t comm, CUstream stream)
{
	return issue_op("ncclScatter", (sing_nccl_op){ .kind = singNcclScatter, .type = type, .root = root, .count = n, .src = src,
						  .dst = dst, .comm = comm, .stream = stream });
}
SING_PUBLIC(ncclScatter);

ncclResult_t sing_ncclSend(CUdeviceptr src, size_t n, int type, int peer, ncclComm_t comm, CUstream stream)
{
	return issue_op("ncclSend", (sing_nccl_op){ .kind = singNcclSend, .type = type, .root = peer, .count = n, .src = src,
					       .comm = comm, .stream = stream });
}
SING_PUBLIC(ncclSend);

ncclResult_t sing_ncclRecv(CUdeviceptr dst, size_t n, int type, int peer, ncclComm_t comm, CUstream stream)
{
	return issue_op("ncclRecv", (sing_nccl_op){ .kind = singNcclRecv, .type = type, .root = peer, .count = n, .dst = dst,
					       .comm = comm, .stream = stream });
}
SING_PUBLIC(ncclRecv);
