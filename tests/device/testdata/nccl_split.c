// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// devices: 4

/* Rows and columns of a grid, their order by key, a rank that is in none, a part of a part; all used at once. */
#include "ranks.h"

static int sum_over(struct rank *r, ncclComm_t comm, int value)
{
	OK(cuMemcpyHtoDAsync(r->src, &value, 4, r->stream));
	NOK(ncclAllReduce((void *)r->src, (void *)r->dst, 1, ncclInt32, ncclSum, comm, r->stream));
	OK(cuMemcpyDtoHAsync(&value, r->dst, 4, r->stream));
	OK(cuStreamSynchronize(r->stream));
	return (value);
}

static void check_comm(ncclComm_t comm, int want, int of)
{
	int rank, n;

	NOK(ncclCommUserRank(comm, &rank));
	NOK(ncclCommCount(comm, &n));
	HOLDS(rank == want && n == of);
}

static void run_rank(struct rank *r)
{
	const int row = r->rank / 2, column = r->rank % 2;
	ncclComm_t rows, columns, some = (ncclComm_t)1, back, again;
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	open_rank(r);
	NOK(ncclCommSplit(r->comm, row, column, &rows, NULL));
	check_comm(rows, column, 2);
	/* Both at once, in a group; the second in the reverse order. */
	NOK(ncclGroupStart());
	NOK(ncclCommSplit(r->comm, column, -row, &columns, NULL));
	NOK(ncclCommSplit(r->comm, 7, -r->rank, &back, NULL));
	NOK(ncclGroupEnd());
	check_comm(columns, 1 - row, 2);
	check_comm(back, 3 - r->rank, 4);
	config.splitShare = 1;
	NOK(ncclCommSplit(r->comm, r->rank == 2 ? NCCL_SPLIT_NOCOLOR : 0, 0, &some, &config));
	HOLDS((r->rank == 2) == (some == NULL));
	if (some != NULL)
		check_comm(some, r->rank < 2 ? r->rank : 2, 3);
	NOK(ncclCommSplit(rows, 0, 0, &again, NULL));

	const int mine = 1 << (4 * r->rank);

	HOLDS(sum_over(r, r->comm, mine) == 0x1111);
	HOLDS(sum_over(r, rows, mine) == (row ? 0x1100 : 0x0011));
	HOLDS(sum_over(r, columns, mine) == (column ? 0x1010 : 0x0101));
	HOLDS(sum_over(r, again, mine) == (row ? 0x1100 : 0x0011));
	if (some != NULL)
		HOLDS(sum_over(r, some, mine) == 0x1011);
	/* A part does not need the whole. */
	NOK(ncclCommDestroy(r->comm));
	NOK(ncclCommDestroy(rows));
	HOLDS(sum_over(r, again, mine) == (row ? 0x1100 : 0x0011));
	/* Two communicators in a single group on a single stream. */
	int v[2] = { 1, 2 };

	OK(cuMemcpyHtoDAsync(r->src, v, 8, r->stream));
	NOK(ncclGroupStart());
	NOK(ncclAllReduce((int *)r->src + 0, (int *)r->dst + 0, 1, ncclInt32, ncclSum, columns, r->stream));
	NOK(ncclAllReduce((int *)r->src, (int *)r->dst + 4, 2, ncclInt32, ncclSum, back, r->stream));
	NOK(ncclGroupEnd());
	OK(cuMemcpyDtoHAsync(v, r->dst + 16, 8, r->stream));
	OK(cuStreamSynchronize(r->stream));
	HOLDS(v[0] == 4 && v[1] == 8);
	if (some != NULL)
		NOK(ncclCommDestroy(some));
	NOK(ncclCommDestroy(columns));
	NOK(ncclCommDestroy(back));
	NOK(ncclCommDestroy(again));
}

int main(void)
{
	as_processes(4, run_rank);
	as_threads(4, run_rank);
	return (0);
}
