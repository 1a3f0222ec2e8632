// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// devices: 4
// expect: processes
// expect: threads

/* Sends and receives: rings, a rank to itself, all ranks to all in a single group, of sizes from 0 to large. */
#include "ranks.h"

enum { INTS = MEMORY / 4 };

static void fill_source(struct rank *r, int tag)
{
	static _Thread_local int host[INTS];

	for (int i = 0; i < INTS; ++i)
		host[i] = tag << 24 | r->rank << 20 | i;
	OK(cuMemcpyHtoDAsync(r->src, host, MEMORY, r->stream));
	OK(cuMemsetD32Async(r->dst, 0, INTS, r->stream));
	OK(cuStreamSynchronize(r->stream));
}

static void check_received(struct rank *r, size_t at, size_t n, int tag, int from, size_t offset)
{
	static _Thread_local int host[INTS];

	OK(cuMemcpyDtoHAsync(host, r->dst + at * 4, n * 4, r->stream));
	OK(cuStreamSynchronize(r->stream));
	for (size_t i = 0; i < n; ++i) {
		if (host[i] != (tag << 24 | from << 20 | (int)(offset + i))) {
			fprintf(stderr, "message %d from rank %d: rank %d has %x at %zu of %zu\n", tag, from, r->rank, host[i], i, n);
			exit(1);
		}
	}
}

static void run_rank(struct rank *r)
{
	static const size_t sizes[] = { 0, 1, 1000, 100000, INTS };
	const int n = r->ranks, next = (r->rank + 1) % n, before = (r->rank + n - 1) % n;
	int tag = 1;

	open_rank(r);
	for (unsigned int s = 0; s < sizeof(sizes) / sizeof(*sizes); ++s, ++tag) {
		fill_source(r, tag);
		NOK(ncclGroupStart());
		NOK(ncclSend((void *)r->src, sizes[s], ncclInt32, next, r->comm, r->stream));
		NOK(ncclRecv((void *)r->dst, sizes[s], ncclInt32, before, r->comm, r->stream));
		NOK(ncclGroupEnd());
		check_received(r, 0, sizes[s], tag, before, 0);
	}
	/* Outside a group, they follow each other: down the line. */
	fill_source(r, tag);
	if (r->rank > 0)
		NOK(ncclRecv((void *)r->dst, 100, ncclInt32, before, r->comm, r->stream));
	if (r->rank < n - 1)
		NOK(ncclSend((void *)r->src, 100, ncclInt32, next, r->comm, r->stream));
	if (r->rank > 0)
		check_received(r, 0, 100, tag, before, 0);
	++tag;
	/* Everybody to everybody, oneself too, several to each, in nested groups, with a collective among them. */
	fill_source(r, tag);
	NOK(ncclGroupStart());
	for (int k = 0; k < 3; ++k) {
		NOK(ncclGroupStart());
		for (int p = 0; p < n; ++p) {
			const size_t at = 100 * (size_t)(k * n + p);

			NOK(ncclSend((int *)r->src + at, 100, ncclInt32, p, r->comm, r->stream));
			NOK(ncclRecv((int *)r->dst + at, 100, ncclInt32, p, r->comm, r->stream));
		}
		NOK(ncclGroupEnd());
	}
	NOK(ncclAllGather((void *)r->src, (int *)r->dst + 2000, 50, ncclInt32, r->comm, r->stream));
	NOK(ncclGroupEnd());
	for (int k = 0; k < 3; ++k)
		for (int p = 0; p < n; ++p)
			check_received(r, 100 * (size_t)(k * n + p), 100, tag, p, 100 * (size_t)(k * n + r->rank));
	for (int p = 0; p < n; ++p)
		check_received(r, 2000 + 50 * (size_t)p, 50, tag, p, 0);
	/* Many in a single group: more than a message of the ring holds. */
	++tag;
	fill_source(r, tag);
	NOK(ncclGroupStart());
	for (size_t i = 0; i < 5000; ++i) {
		NOK(ncclSend((int *)r->src + i, 1, ncclInt32, next, r->comm, r->stream));
		NOK(ncclRecv((int *)r->dst + i, 1, ncclInt32, before, r->comm, r->stream));
	}
	NOK(ncclGroupEnd());
	check_received(r, 0, 5000, tag, before, 0);
	NOK(ncclCommDestroy(r->comm));
}

int main(void)
{
	for (int n = 1; n <= MOST_RANKS; n *= 2)
		as_processes(n, run_rank);
	puts("processes");
	fflush(stdout);
	as_threads(3, run_rank);
	puts("threads");
	return (0);
}
