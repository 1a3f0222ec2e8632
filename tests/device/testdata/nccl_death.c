// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// devices: 3

/* A rank is killed while the other ranks wait for that rank: they are told, abort, and go on alone. */
#include "ranks.h"

static void run_rank(struct rank *r)
{
	ncclComm_t part;
	int v = 1;

	open_rank(r);
	NOK(ncclCommSplit(r->comm, r->rank == 2, 0, &part, NULL));
	if (r->rank == 2) {
		meet_ranks(2);
		kill(getpid(), SIGKILL);
	}
	OK(cuMemcpyHtoDAsync(r->src, &v, 4, r->stream));
	NOK(ncclAllReduce((void *)r->src, (void *)r->dst, 1, ncclInt, ncclSum, r->comm, r->stream));
	atomic_fetch_add(&shared->step, 1);
	do
		NOK(ncclCommGetAsyncError(r->comm, &v));
	while (v == ncclSuccess);
	HOLDS(v == ncclRemoteError);
	HOLDS(ncclGetLastError(r->comm)[0] != 0);
	NWANT(ncclRemoteError, ncclAllReduce((void *)r->src, (void *)r->dst, 1, ncclInt, ncclSum, r->comm, r->stream));
	/* The stream has not gone on without the data that was not received. */
	HOLDS(cuStreamQuery(r->stream) == CUDA_ERROR_NOT_READY);
	NOK(ncclCommAbort(r->comm));
	OK(cuStreamSynchronize(r->stream));
	/* Another communicator of the same ranks is not affected. */
	NOK(ncclAllReduce((void *)r->src, (void *)r->dst, 1, ncclInt, ncclSum, part, r->stream));
	OK(cuMemcpyDtoHAsync(&v, r->dst, 4, r->stream));
	OK(cuStreamSynchronize(r->stream));
	HOLDS(v == 2);
	NOK(ncclCommDestroy(part));
}

int main(void)
{
	as_processes(3, run_rank);
	return (0);
}
