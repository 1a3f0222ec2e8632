// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Some ranks of a communicator; the rest is elsewhere:
 *
 *	hosts FIRST COUNT ALL FILE
 *
 * They take turns at the devices if there are fewer. Rank 0 writes the communicator's identity into the file, the other ranks
 * wait for the file. Each prints a hash of the results that it has received: sums of numbers with bits that depend on the order.
 */
#include "../ranks.h"

static int first, count, all;
static const char *file;

static void exchange_file(ncclUniqueId *id, int rank)
{
	char part[4096];
	FILE *f;

	if (rank == 0) {
		NOK(ncclGetUniqueId(id));
		snprintf(part, sizeof(part), "%s.part", file);
		HOLDS((f = fopen(part, "w")) != NULL && fwrite(id, sizeof(*id), 1, f) == 1 && fclose(f) == 0);
		HOLDS(rename(part, file) == 0);
		return;
	}
	while ((f = fopen(file, "r")) == NULL)
		usleep(10000);
	HOLDS(fread(id, sizeof(*id), 1, f) == 1 && fclose(f) == 0);
}

static unsigned long long hash_bytes(unsigned long long h, const void *of, size_t n)
{
	const unsigned char *p = of;

	for (size_t i = 0; i < n; ++i)
		h = (h ^ p[i]) * 1099511628211ull;
	return (h);
}

enum { FLOATS = 50000 };

static void run_rank(struct rank *r)
{
	static float host[FLOATS];
	int devices;
	unsigned long long h = 14695981039346656037ull;

	OK(cuInit(0));
	OK(cuDeviceGetCount(&devices));
	open_device(r, r->rank % devices);
	r->rank += first;
	r->ranks = all;
	exchange_file(&r->id, r->rank);
	NOK(ncclCommInitRank(&r->comm, all, r->id, r->rank));
	for (int step = 0; step < 5; ++step) {
		for (int i = 0; i < FLOATS; ++i)
			host[i] = 1.0f / (float)(1 + (i * 7 + r->rank * 13 + step) % 997) * (float)(1 << (i + r->rank * 3) % 20);
		OK(cuMemcpyHtoDAsync(r->src, host, sizeof(host), r->stream));
		NOK(ncclAllReduce((void *)r->src, (void *)r->dst, FLOATS, ncclFloat, step % 2 ? ncclAvg : ncclSum, r->comm, r->stream));
		OK(cuMemcpyDtoHAsync(host, r->dst, sizeof(host), r->stream));
		OK(cuStreamSynchronize(r->stream));
		h = hash_bytes(h, host, sizeof(host));
	}
	NOK(ncclGroupStart());
	NOK(ncclSend((void *)r->src, FLOATS, ncclFloat, (r->rank + 1) % all, r->comm, r->stream));
	NOK(ncclRecv((void *)r->dst, FLOATS, ncclFloat, (r->rank + all - 1) % all, r->comm, r->stream));
	NOK(ncclGroupEnd());
	OK(cuMemcpyDtoHAsync(host, r->dst, sizeof(host), r->stream));
	OK(cuStreamSynchronize(r->stream));
	printf("rank %d: %016llx\n", r->rank, hash_bytes(h, host, sizeof(host)));
	NOK(ncclCommDestroy(r->comm));
}

int main(int argc, char **argv)
{
	HOLDS(argc == 5);
	first = atoi(argv[1]);
	count = atoi(argv[2]);
	all = atoi(argv[3]);
	file = argv[4];
	as_processes(count, run_rank);
	return (0);
}
