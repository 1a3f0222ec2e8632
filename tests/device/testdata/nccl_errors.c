// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// devices: 2

/* A mistake of the program is reported by the call itself, and has no effect on other calls. */
#include "ranks.h"

static void check_groups(struct rank *r, ncclComm_t comm)
{
	void *a = (void *)r->src, *b = (void *)r->dst;

	NWANT(ncclInvalidUsage, ncclGroupEnd());
	/* No operation of a group with an error is issued: the send would never end. */
	NOK(ncclGroupStart());
	NOK(ncclSend(a, 1, ncclInt, 0, comm, r->stream));
	NWANT(ncclInvalidArgument, ncclSend(a, 1, 99, 0, comm, r->stream));
	NWANT(ncclInvalidArgument, ncclGroupEnd());
	OK(cuStreamSynchronize(r->stream));
	/* To oneself, a send needs its receive. */
	NWANT(ncclInvalidUsage, ncclSend(a, 1, ncclInt, 0, comm, r->stream));
	NOK(ncclGroupStart());
	NOK(ncclSend(a, 1, ncclInt, 0, comm, r->stream));
	NOK(ncclRecv(b, 1, ncclInt, 0, comm, r->stream));
	NOK(ncclRecv(b, 1, ncclInt, 0, comm, r->stream));
	NWANT(ncclInvalidUsage, ncclGroupEnd());
	/* An empty group is a group. */
	NOK(ncclGroupStart());
	NOK(ncclGroupStart());
	NOK(ncclGroupEnd());
	NOK(ncclGroupEnd());
}

static void check_arguments(struct rank *r, ncclComm_t comm)
{
	void *a = (void *)r->src, *b = (void *)r->dst;
	int n;

	NWANT(ncclInvalidArgument, ncclAllReduce(a, b, 1, -1, ncclSum, comm, r->stream));
	NWANT(ncclInvalidArgument, ncclAllReduce(a, b, 1, ncclNumTypes, ncclSum, comm, r->stream));
	NWANT(ncclInvalidArgument, ncclAllReduce(a, b, 1, ncclInt, ncclNumOps, comm, r->stream));
	NWANT(ncclInvalidArgument, ncclAllReduce(a, b, 1, ncclInt, -1, comm, r->stream));
	NWANT(ncclInvalidArgument, ncclAllReduce(a, b, (size_t)-1, ncclInt, ncclSum, comm, r->stream));
	NWANT(ncclInvalidArgument, ncclAllReduce(a, b, 1, ncclInt, ncclSum, NULL, r->stream));
	NWANT(ncclInvalidArgument, ncclAllReduce(a, b, 1, ncclInt, ncclSum, (ncclComm_t)&n, r->stream));
	NWANT(ncclInvalidArgument, ncclReduce(a, b, 1, ncclInt, ncclSum, 1, comm, r->stream));
	NWANT(ncclInvalidArgument, ncclReduce(a, b, 1, ncclInt, ncclSum, -1, comm, r->stream));
	NWANT(ncclInvalidArgument, ncclBroadcast(a, b, 1, ncclInt, 1, comm, r->stream));
	NWANT(ncclInvalidArgument, ncclRecv(b, 1, ncclInt, 1, comm, r->stream));
	HOLDS(strstr(ncclGetLastError(comm), "rank 1 of 1") != NULL);
	NWANT(ncclInvalidArgument, ncclCommCount(NULL, &n));
	NWANT(ncclInvalidArgument, ncclCommCount(comm, NULL));
	NWANT(ncclInvalidArgument, ncclCommGetAsyncError(comm, NULL));
	NOK(ncclCommGetAsyncError(comm, &n));
	HOLDS(n == ncclSuccess);
}

static void check_creation(struct rank *r)
{
	static const int twice[] = { 1, 1 }, beyond[] = { 0, 2 };
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER, zero = { 0 };
	ncclComm_t c, all[2];
	ncclUniqueId id, none = { { 0 } };

	NWANT(ncclInvalidArgument, ncclGetUniqueId(NULL));
	NOK(ncclGetUniqueId(&id));
	NWANT(ncclInvalidArgument, ncclCommInitRank(NULL, 1, id, 0));
	NWANT(ncclInvalidArgument, ncclCommInitRank(&c, 0, id, 0));
	NWANT(ncclInvalidArgument, ncclCommInitRank(&c, 2, id, 2));
	NWANT(ncclInvalidArgument, ncclCommInitRank(&c, 2, id, -1));
	NWANT(ncclInvalidArgument, ncclCommInitRank(&c, 1, none, 0));
	HOLDS(c == NULL);
	NWANT(ncclInvalidArgument, ncclCommInitRankConfig(&c, 1, id, 0, &zero));
	config.blocking = 2;
	NWANT(ncclInvalidArgument, ncclCommInitRankConfig(&c, 1, id, 0, &config));
	config.blocking = 1;
	config.minCTAs = 4;
	config.maxCTAs = 2;
	NWANT(ncclInvalidArgument, ncclCommInitRankConfig(&c, 1, id, 0, &config));
	config.maxCTAs = 4;
	NOK(ncclCommInitRankConfig(&c, 1, id, 0, &config));
	NWANT(ncclInvalidArgument, ncclCommSplit(c, -2, 0, all, NULL));
	NWANT(ncclInvalidArgument, ncclCommSplit(c, 0, 0, NULL, NULL));
	NOK(ncclCommDestroy(c));
	NWANT(ncclInvalidArgument, ncclCommDestroy(c));
	NWANT(ncclInvalidArgument, ncclCommCount(c, &r->ranks));
	NOK(ncclCommDestroy(NULL));
	NWANT(ncclInvalidUsage, ncclCommInitAll(all, 2, twice));
	NWANT(ncclInvalidArgument, ncclCommInitAll(all, 2, beyond));
	NWANT(ncclInvalidArgument, ncclCommInitAll(all, 3, NULL));
	NWANT(ncclInvalidArgument, ncclCommInitAll(NULL, 1, NULL));
}

static void check_factors(struct rank *r, ncclComm_t comm)
{
	void *a = (void *)r->src, *b = (void *)r->dst;
	float half = 0.5f, three = 3;
	ncclRedOp_t op, other;
	CUdeviceptr scalar = r->dst + 64;

	NWANT(ncclInvalidArgument, ncclRedOpCreatePreMulSum(&op, &half, 99, ncclScalarHostImmediate, comm));
	NWANT(ncclInvalidArgument, ncclRedOpCreatePreMulSum(&op, &half, ncclFloat, 2, comm));
	NWANT(ncclInvalidArgument, ncclRedOpCreatePreMulSum(NULL, &half, ncclFloat, ncclScalarHostImmediate, comm));
	NOK(ncclRedOpCreatePreMulSum(&op, &half, ncclFloat, ncclScalarHostImmediate, comm));
	NOK(ncclRedOpCreatePreMulSum(&other, (void *)scalar, ncclFloat, ncclScalarDevice, comm));
	HOLDS(op != other && op >= ncclNumOps);
	NWANT(ncclInvalidArgument, ncclAllReduce(a, b, 1, ncclInt, op, comm, r->stream));
	OK(cuMemcpyHtoDAsync(r->src, &three, 4, r->stream));
	NOK(ncclAllReduce(a, b, 1, ncclFloat, op, comm, r->stream));
	/* A factor in the device's memory has the value of the moment when its turn comes. */
	OK(cuMemcpyHtoDAsync(scalar, &three, 4, r->stream));
	NOK(ncclAllReduce(b, b, 1, ncclFloat, other, comm, r->stream));
	OK(cuMemcpyDtoHAsync(&half, r->dst, 4, r->stream));
	OK(cuStreamSynchronize(r->stream));
	HOLDS(half == 4.5f);
	NOK(ncclRedOpDestroy(op, comm));
	NWANT(ncclInvalidArgument, ncclRedOpDestroy(op, comm));
	NWANT(ncclInvalidArgument, ncclRedOpDestroy(ncclSum, comm));
	NWANT(ncclInvalidArgument, ncclAllReduce(a, b, 1, ncclFloat, op, comm, r->stream));
	NOK(ncclRedOpDestroy(other, comm));
}

static void run_rank(struct rank *r)
{
	CUdeviceptr memory;
	ncclReg_t handle;
	int version;

	NOK(ncclGetVersion(&version));
	HOLDS(version >= NCCL_VERSION(2, 18, 0));
	HOLDS(strcmp(ncclGetErrorString(ncclInvalidUsage), "no error") != 0);
	open_rank(r);
	check_groups(r, r->comm);
	check_arguments(r, r->comm);
	check_factors(r, r->comm);
	NOK(ncclMemAlloc((void **)&memory, 1000));
	OK(cuMemsetD8(memory, 1, 1000));
	NOK(ncclCommRegister(r->comm, (void *)memory, 1000, &handle));
	NOK(ncclCommDeregister(r->comm, handle));
	NWANT(ncclInvalidArgument, ncclCommDeregister(r->comm, handle));
	NOK(ncclMemFree((void *)memory));
	check_creation(r);
	/* After all that the communicator still works. */
	NOK(ncclAllReduce((void *)r->src, (void *)r->dst, 1, ncclInt, ncclSum, r->comm, r->stream));
	NOK(ncclCommFinalize(r->comm));
	NOK(ncclCommDestroy(r->comm));
	OK(cuStreamSynchronize(r->stream));
}

int main(void)
{
	as_processes(1, run_rank);
	return (0);
}
