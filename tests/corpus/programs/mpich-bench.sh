#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: a benchmark as OSU's, in C on MPICH by srun --mpi=pmi2, two ranks on each of two nodes: latency, bandwidth, both ways, collectives, by size
# Needs: mpich libmpich-dev gcc
# Debian has no osu-micro-benchmarks: the loops are those of its osu_latency, osu_bw, osu_bibw and osu_allreduce and the
# like, and the contents of each message are compared as well.
#SBATCH --job-name=mpich-bench --nodes=2 --ntasks=4 --overcommit --output=log
set -eu
echo "compiling"
cat >bench.c <<'C'
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 20, WINDOW = 16, MAX_RANKS = 16 };
static unsigned char *in, *out;
static int rank, size, wrong;
static double began;

static void fill(int bytes, int seed)
{
	for (int i = 0; i < bytes; i++)
		in[i] = i * 7 + seed * 31 + bytes;
}

static void compare(const unsigned char *got, int bytes, int of, int seed)
{
	for (int i = 0; i < bytes; i++)
		wrong += got[i] != (unsigned char)(i * 7 + seed * 31 + of);
}

/* Of the time only that there is one: it is another each time. */
static void report(const char *what, int bytes)
{
	int all = 0;
	const double took = MPI_Wtime() - began;
	MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("%s %d: %s, %d wrong bytes\n", what, bytes, took > 0 ? "timed" : "no time", all), fflush(stdout);
}

static void begin(void)
{
	MPI_Barrier(MPI_COMM_WORLD);
	began = MPI_Wtime();
}

/* Rank 0 and the last rank, which is on the other node. */
static void latency(int bytes, int turns)
{
	const int last = size - 1;
	begin();
	for (int i = 0; i < turns && (rank == 0 || rank == last); i++) {
		fill(bytes, i);
		if (rank == 0)
			MPI_Send(in, bytes, MPI_BYTE, last, 1, MPI_COMM_WORLD);
		memset(out, 0, bytes);
		MPI_Recv(out, bytes, MPI_BYTE, rank == 0 ? last : 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		compare(out, bytes, bytes, i);
		if (rank == last)
			MPI_Send(in, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
	}
	report("latency", bytes);
}

static void bandwidth(int bytes, int turns, int both)
{
	const int last = size - 1, other = rank == 0 ? last : 0;
	MPI_Request all[2 * WINDOW];
	begin();
	fill(bytes, 3);
	for (int i = 0; i < turns && (rank == 0 || rank == last); i++) {
		int n = 0;
		for (int w = 0; w < WINDOW && (both || rank == last); w++)
			MPI_Irecv(out + w * bytes, bytes, MPI_BYTE, other, 2, MPI_COMM_WORLD, &all[n++]);
		for (int w = 0; w < WINDOW && (both || rank == 0); w++)
			MPI_Isend(in, bytes, MPI_BYTE, other, 2, MPI_COMM_WORLD, &all[n++]);
		MPI_Waitall(n, all, MPI_STATUSES_IGNORE);
		for (int w = 0; w < WINDOW && (both || rank == last); w++)
			compare(out + w * bytes, bytes, bytes, 3);
		if (rank == last)
			MPI_Send(in, 1, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
		else
			MPI_Recv(out, 1, MPI_BYTE, last, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	report(both ? "both ways" : "bandwidth", bytes);
}

static void collectives(int bytes, int turns)
{
	const int words = bytes / sizeof(int);
	int *const a = (int *)in, *const b = (int *)out;
	begin();
	for (int i = 0; i < turns; i++) {
		const int root = i % size;
		fill(bytes, root);
		memcpy(out, in, bytes);
		if (rank != root)
			memset(out, 0, bytes);
		MPI_Bcast(out, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
		compare(out, bytes, bytes, root);
	}
	report("broadcast", bytes);
	begin();
	for (int i = 0; i < turns; i++) {
		for (int k = 0; k < words; k++)
			a[k] = k * (rank + 1) + i;
		MPI_Allreduce(a, b, words, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		for (int k = 0; k < words; k++)
			wrong += b[k] != k * (size * (size + 1) / 2) + i * size;
	}
	report("reduction", bytes);
	begin();
	for (int i = 0; i < turns; i++) {
		fill(bytes, rank + i);
		MPI_Allgather(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, MPI_COMM_WORLD);
		for (int r = 0; r < size; r++)
			compare(out + r * bytes, bytes, bytes, r + i);
	}
	report("gathering", bytes);
	begin();
	for (int i = 0; i < turns; i++) {
		for (int r = 0; r < size; r++)
			memset(in + r * bytes, rank * 16 + r, bytes);
		MPI_Alltoall(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, MPI_COMM_WORLD);
		for (int r = 0; r < size; r++)
			for (int k = 0; k < bytes; k++)
				wrong += out[r * bytes + k] != (unsigned char)(r * 16 + rank);
	}
	report("all to all", bytes);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	in = malloc(MOST * MAX_RANKS), out = malloc(MOST * MAX_RANKS);
	for (int bytes = 4; bytes <= MOST; bytes *= 8)
		latency(bytes, bytes > 65536 ? 10 : 100);
	for (int bytes = 4; bytes <= MOST; bytes *= 8)
		bandwidth(bytes, bytes > 65536 ? 4 : 40, 0), bandwidth(bytes, bytes > 65536 ? 4 : 40, 1);
	for (int bytes = 4; bytes <= MOST / 4; bytes *= 8)
		collectives(bytes, bytes > 8192 ? 10 : 60);
	MPI_Finalize();
	return 0;
}
C
mpicc.mpich -O2 -o bench bench.c
srun --mpi=pmi2 ./bench
rm bench
