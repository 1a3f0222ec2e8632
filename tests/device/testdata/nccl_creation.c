// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// devices: 3

/* Ways to make communicators: by several identities, in groups, many at once; and members that die meanwhile. */
#include "ranks.h"

static void check_sum(struct rank *r, ncclComm_t comm)
{
	const int v = r->rank + 1;

	OK(cuCtxSetCurrent(r->ctx));
	OK(cuMemcpyHtoDAsync(r->src, &v, 4, r->stream));
	NOK(ncclAllReduce((void *)r->src, (void *)r->dst, 1, ncclInt, ncclSum, comm, r->stream));
}

/* With several identities, of which each rank has all. */
static void check_scalable(struct rank *r)
{
	ncclUniqueId ids[2];

	open_device(r, r->rank);
	exchange_id(r);
	ids[0] = ids[1] = r->id;
	NOK(ncclCommInitRankScalable(&r->comm, r->ranks, r->rank, 2, ids, NULL));
	check_sum(r, r->comm);
	OK(cuStreamSynchronize(r->stream));
	NOK(ncclCommDestroy(r->comm));
}

/* A single thread makes all members of two communicators in a single group, blocking or not. */
static void check_grouped(struct rank *lead)
{
	enum { N = 3 };
	struct rank r[N] = { 0 };
	ncclComm_t comms[2][N];
	ncclUniqueId ids[2];
	int v;

	(void)lead;
	for (int i = 0; i < N; ++i) {
		r[i].rank = i;
		open_device(&r[i], i);
	}
	for (int blocking = 0; blocking < 2; ++blocking) {
		ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

		config.blocking = blocking;
		NOK(ncclGetUniqueId(&ids[0]));
		NOK(ncclGetUniqueId(&ids[1]));
		HOLDS(memcmp(&ids[0], &ids[1], sizeof(ids[0])) != 0);
		NOK(ncclGroupStart());
		for (int i = 0; i < N; ++i) {
			OK(cuCtxSetCurrent(r[i].ctx));
			for (int k = 0; k < 2; ++k)
				NWANT(blocking ? ncclSuccess : ncclInProgress,
				      ncclCommInitRankConfig(&comms[k][i], N, ids[k], i, &config));
		}
		NWANT(blocking ? ncclSuccess : ncclInProgress, ncclGroupEnd());
		for (int i = 0; i < N; ++i)
			for (int k = 0; k < 2; ++k)
				HOLDS(settle_comm(comms[k][i]) == ncclSuccess);
		for (int k = 0; k < 2; ++k) {
			for (int i = 0; i < N; ++i)
				check_sum(&r[i], comms[k][i]);
			for (int i = 0; i < N; ++i) {
				OK(cuCtxSetCurrent(r[i].ctx));
				OK(cuMemcpyDtoHAsync(&v, r[i].dst, 4, r[i].stream));
				OK(cuStreamSynchronize(r[i].stream));
				HOLDS(v == 6);
				NOK(ncclCommDestroy(comms[k][i]));
			}
		}
	}
}

/* Without a context NCCL uses the first device. */
static void check_bare(struct rank *r)
{
	CUcontext ctx;
	int dev;

	NOK(ncclGetUniqueId(&r->id));
	NOK(ncclCommInitRank(&r->comm, 1, r->id, 0));
	NOK(ncclCommCuDevice(r->comm, &dev));
	HOLDS(dev == 0);
	OK(cuCtxGetCurrent(&ctx));
	HOLDS(ctx != NULL);
	NOK(ncclCommDestroy(r->comm));
}

/* Of three members the first is killed before the second comes: none of the rest waits for ever. */
static void check_orphaned(struct rank *r)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	config.blocking = 0;
	open_device(r, r->rank);
	exchange_id(r);
	if (r->rank == 2) {
		meet_ranks(1);
		NWANT(ncclInProgress, ncclCommInitRankConfig(&r->comm, r->ranks, r->id, r->rank, &config));
		kill(getpid(), SIGKILL);
	}
	if (r->rank == 1)
		return;
	NWANT(ncclInProgress, ncclCommInitRankConfig(&r->comm, r->ranks, r->id, r->rank, &config));
	atomic_store(&shared->step, 1);
	HOLDS(settle_comm(r->comm) == ncclRemoteError);
	HOLDS(strstr(ncclGetLastError(r->comm), "left") != NULL);
	NOK(ncclCommAbort(r->comm));
}

int main(void)
{
	as_processes(3, check_scalable);
	as_processes(1, check_grouped);
	as_processes(1, check_bare);
	as_processes(3, check_orphaned);
	return (0);
}
