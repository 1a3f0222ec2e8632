// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Ranks that are started singly and behave so that a cut is hard to find: cut MODE RANK RANKS FILE FOLDER. Each prints a line at its
 * end.
 *
 *	pipe      rank 1 waits, between two collectives, for a word of rank 0 that comes after rank 0's next one
 *	host      rank 1 is in host code for long
 *	gone      rank 1 ends, rank 0 goes on alone
 *	create    communicators are made, from ids and by splits, used and destroyed, as long as it takes
 *	async     the same, with communicators that do not block
 */
#include "../ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>

enum { ROUNDS = 40 };

static struct rank me;
static int fifo = -1;

/* A number that depends on all that was reduced before. */
static void reduce_once(ncclComm_t comm)
{
	NOK(ncclAllReduce((void *)me.src, (void *)me.src, 1, ncclUint32, ncclSum, comm, me.stream));
}

static unsigned int read_number(void)
{
	unsigned int n;

	OK(cuMemcpyDtoHAsync(&n, me.src, sizeof(n), me.stream));
	OK(cuStreamSynchronize(me.stream));
	return n;
}

static void write_file(const char *path, const void *p, size_t n)
{
	char tmp[4200];
	int fd;

	snprintf(tmp, sizeof(tmp), "%s.new", path);
	fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	HOLDS(fd >= 0 && write(fd, p, n) == (ssize_t)n && close(fd) == 0 && rename(tmp, path) == 0);
}

static void read_file(const char *path, void *p, size_t n)
{
	int fd;

	while ((fd = open(path, O_RDONLY)) < 0)
		usleep(1000);
	HOLDS(read(fd, p, n) == (ssize_t)n);
	close(fd);
}

/* An id that rank 0 makes. */
static ncclUniqueId id_of(const char *folder, int round)
{
	ncclUniqueId id;
	char path[4096];

	snprintf(path, sizeof(path), "%s/id%d", folder, round);
	if (me.rank == 0) {
		NOK(ncclGetUniqueId(&id));
		write_file(path, &id, sizeof(id));
	}
	read_file(path, &id, sizeof(id));
	return id;
}

static void with_pipe(const char *folder)
{
	char path[4096], c = 0;

	snprintf(path, sizeof(path), "%s/pipe", folder);
	HOLDS(mkfifo(path, 0600) == 0 || errno == EEXIST);
	fifo = open(path, O_RDWR);
	HOLDS(fifo >= 0);
	for (int i = 0; i < ROUNDS; ++i) {
		if (me.rank == 0) {
			reduce_once(me.comm);
			reduce_once(me.comm);
			HOLDS(write(fifo, &c, 1) == 1);
		} else if (me.rank == 1) {
			reduce_once(me.comm);
			HOLDS(read(fifo, &c, 1) == 1);
			reduce_once(me.comm);
		} else {
			reduce_once(me.comm);
			reduce_once(me.comm);
		}
		if (i % 3 == 0)
			read_number();
		usleep(5000);
	}
}

static void in_host_code(void)
{
	for (int i = 0; i < ROUNDS / 4; ++i) {
		reduce_once(me.comm);
		if (me.rank == 1)
			usleep(100000);
	}
}

static void run_alone(void)
{
	for (int i = 0; i < ROUNDS; ++i) {
		reduce_once(me.comm);
		read_number();
		if (me.rank == 1 && i == ROUNDS / 8)
			break;
		if (i == ROUNDS / 8) {
			ncclComm_t old = me.comm;

			NOK(ncclGetUniqueId(&me.id));
			NOK(ncclCommInitRank(&me.comm, 1, me.id, 0));
			NOK(ncclCommDestroy(old));
		}
		usleep(10000);
	}
}

static void wait_ready(ncclComm_t comm)
{
	ncclResult_t state = ncclInProgress;

	while (state == ncclInProgress) {
		NOK(ncclCommGetAsyncError(comm, &state));
		usleep(500);
	}
	HOLDS(state == ncclSuccess);
}

static void run_creating(const char *folder, bool blocking)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	config.blocking = blocking;
	for (int i = 0; i < 5 * ROUNDS; ++i) {
		const ncclUniqueId id = id_of(folder, i);
		ncclComm_t own, part;
		ncclResult_t r = ncclCommInitRankConfig(&own, me.ranks, id, me.ranks - 1 - me.rank, &config);

		HOLDS(r == ncclSuccess || r == ncclInProgress);
		if (!blocking)
			wait_ready(own);
		reduce_once(own);
		r = ncclCommSplit(own, me.rank % 2, me.rank, &part, NULL);
		HOLDS(r == ncclSuccess || r == ncclInProgress);
		if (!blocking)
			wait_ready(part);
		reduce_once(part);
		reduce_once(me.comm);
		read_number();
		NOK(ncclCommDestroy(part));
		NOK(ncclCommDestroy(own));
	}
}

int main(int argc, char **argv)
{
	unsigned int first;

	HOLDS(argc == 5);
	me = (struct rank){ .rank = atoi(argv[2]), .ranks = atoi(argv[3]) };
	open_device(&me, me.rank / 2);
	first = (unsigned int)me.rank + 1;
	OK(cuMemcpyHtoD(me.src, &first, sizeof(first)));
	me.id = id_of(argv[4], -1);
	NOK(ncclCommInitRank(&me.comm, me.ranks, me.id, me.rank));
	if (strcmp(argv[1], "pipe") == 0)
		with_pipe(argv[4]);
	else if (strcmp(argv[1], "host") == 0)
		in_host_code();
	else if (strcmp(argv[1], "gone") == 0)
		run_alone();
	else
		run_creating(argv[4], strcmp(argv[1], "create") == 0);
	printf("rank %d: %u\n", me.rank, read_number());
	return 0;
}
