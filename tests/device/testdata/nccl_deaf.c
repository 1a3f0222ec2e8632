// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// devices: 2
// limit: 60s
// slow: a communicator that has failed is given ten seconds to be aborted

/* A rank is gone, and the other rank does not look at its communicator: the wait ends with an error, not with wrong numbers. */
#include "ranks.h"

static void run_rank(struct rank *r)
{
	open_rank(r);
	if (r->rank == 1)
		exit(0);
	NOK(ncclAllReduce((void *)r->src, (void *)r->dst, 1, ncclInt, ncclSum, r->comm, r->stream));
	WANT(CUDA_ERROR_LAUNCH_FAILED, cuStreamSynchronize(r->stream));
}

int main(void)
{
	as_processes(2, run_rank);
	return (0);
}
