// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// devices: 2

/* Communicators that do not block: made, split, finalized, and used too early. */
#include "ranks.h"

static void run_rank(struct rank *r)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclComm_t part, lone;
	ncclUniqueId id;
	ncclResult_t s;
	int n;

	config.blocking = 0;
	open_device(r, r->rank);
	exchange_id(r);
	if (r->rank == 1)
		meet_ranks(1); /* rank 0 is alone until then */
	NWANT(ncclInProgress, ncclCommInitRankConfig(&r->comm, r->ranks, r->id, r->rank, &config));
	if (r->rank == 0) {
		NOK(ncclCommGetAsyncError(r->comm, &s));
		HOLDS(s == ncclInProgress);
		NWANT(ncclInvalidArgument, ncclCommCount(r->comm, &n));
		NWANT(ncclInvalidArgument, ncclAllReduce((void *)r->src, (void *)r->dst, 1, ncclInt, ncclSum, r->comm, r->stream));
		HOLDS(strstr(ncclGetLastError(r->comm), "before it is ready") != NULL);
		atomic_store(&shared->step, 1);
	}
	HOLDS(settle_comm(r->comm) == ncclSuccess);
	NOK(ncclCommCount(r->comm, &n));
	HOLDS(n == r->ranks);

	/* In a group, like a library. */
	NOK(ncclGroupStart());
	for (int i = 0; i < 100; ++i)
		NOK(ncclAllReduce((void *)r->src, (void *)r->dst, 1000, ncclFloat, ncclSum, r->comm, r->stream));
	s = ncclGroupEnd();
	HOLDS(s == ncclSuccess || s == ncclInProgress);
	HOLDS(settle_comm(r->comm) == ncclSuccess);

	NWANT(ncclInProgress, ncclCommSplit(r->comm, 0, 0, &part, NULL));
	HOLDS(settle_comm(part) == ncclSuccess);
	NOK(ncclAllReduce((void *)r->src, (void *)r->dst, 1, ncclFloat, ncclSum, part, r->stream));

	/* Once finalized, the communicator takes no more operations, and it ends when all are done. */
	NWANT(ncclInProgress, ncclCommFinalize(part));
	HOLDS(settle_comm(part) == ncclSuccess);
	NWANT(ncclInvalidUsage, ncclAllReduce((void *)r->src, (void *)r->dst, 1, ncclFloat, ncclSum, part, r->stream));
	NWANT(ncclInvalidUsage, ncclCommFinalize(part));
	NOK(ncclCommDestroy(part));
	OK(cuStreamSynchronize(r->stream));
	NOK(ncclCommDestroy(r->comm));

	/* A communicator to which no other rank comes can be given up. */
	NOK(ncclGetUniqueId(&id));
	NWANT(ncclInProgress, ncclCommInitRankConfig(&lone, 2, id, 0, &config));
	NOK(ncclCommAbort(lone));
	NWANT(ncclInvalidArgument, ncclCommAbort(lone));

	/* Both kinds in a single group are refused, and no communicator is made. */
	NOK(ncclGroupStart());
	NWANT(ncclInProgress, ncclCommInitRankConfig(&lone, 1, id, 0, &config));
	NOK(ncclGetUniqueId(&id));
	NOK(ncclCommInitRank(&part, 1, id, 0));
	NWANT(ncclInvalidArgument, ncclGroupEnd());
	HOLDS(lone == NULL && part == NULL);
}

int main(void)
{
	as_processes(2, run_rank);
	return (0);
}
