// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// devices: 2

/* Ranks that do not agree on an operation, or on the communicator, are told so. */
#include "ranks.h"

static void check_counts(struct rank *r)
{
	ncclResult_t s;

	open_rank(r);
	NOK(ncclAllReduce((void *)r->src, (void *)r->dst, 10 + (size_t)r->rank, ncclFloat, ncclSum, r->comm, r->stream));
	do
		NOK(ncclCommGetAsyncError(r->comm, &s));
	while (s == ncclSuccess);
	HOLDS(s == ncclInvalidUsage);
	HOLDS(strstr(ncclGetLastError(r->comm), "agree") != NULL);
	NOK(ncclCommAbort(r->comm));
	OK(cuStreamSynchronize(r->stream));
}

static void check_sizes(struct rank *r)
{
	open_device(r, r->rank);
	exchange_id(r);
	NWANT(ncclInvalidUsage, ncclCommInitRank(&r->comm, 3 + r->rank, r->id, r->rank));
	HOLDS(r->comm == NULL);
}

static void check_twice(struct rank *r)
{
	open_device(r, r->rank);
	exchange_id(r);
	NWANT(ncclInvalidUsage, ncclCommInitRank(&r->comm, 3, r->id, 1));
}

int main(void)
{
	as_processes(2, check_counts);
	as_processes(2, check_sizes);
	as_processes(2, check_twice);
	return (0);
}
