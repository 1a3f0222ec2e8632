#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: MPICH started by srun --mpi=pmi2, two ranks on each of two nodes: numbers are sorted by all-to-all exchanges
# Needs: mpich libmpich-dev gcc
#SBATCH --job-name=mpich-srun --nodes=2 --ntasks=4 --overcommit --output=log
set -eu
echo "compiling"
cat >sort.c <<'C'
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MINE = 3000, TURNS = 60, MAX_RANKS = 16 };
static unsigned in[MINE], out[MINE * MAX_RANKS];

static int compare(const void *a, const void *b)
{
	const unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	int rank, size, sent[MAX_RANKS], from[MAX_RANKS], got[MAX_RANKS], at[MAX_RANKS];
	unsigned long seed, all = 0;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	seed = rank + 1;
	for (int turn = 1; turn <= TURNS; turn++) {
		for (int i = 0; i < MINE; i++)
			in[i] = (seed = (seed * 6364136223846793005u + all) ^ seed >> 33) >> 32;
		qsort(in, MINE, sizeof(in[0]), compare);
		for (int r = 0, i = 0; r < size; r++) { /* rank r gets the r-th part of all numbers */
			from[r] = i;
			while (i < MINE && in[i] / (0xffffffffu / size + 1) == (unsigned)r)
				i++;
			sent[r] = i - from[r];
		}
		MPI_Alltoall(sent, 1, MPI_INT, got, 1, MPI_INT, MPI_COMM_WORLD);
		int n = 0;
		for (int r = 0; r < size; n += got[r++])
			at[r] = n;
		MPI_Alltoallv(in, sent, from, MPI_UNSIGNED, out, got, at, MPI_UNSIGNED, MPI_COMM_WORLD);
		qsort(out, n, sizeof(out[0]), compare);
		unsigned long hash = n, sums[MAX_RANKS];
		for (int i = 0; i < n; i++)
			hash = hash * 31 + out[i];
		MPI_Allgather(&hash, 1, MPI_UNSIGNED_LONG, sums, 1, MPI_UNSIGNED_LONG, MPI_COMM_WORLD);
		for (int r = 0; r < size; r++)
			all = all * 1000003 + sums[r];
		if (rank == size - 1) {
			printf("turn %d: %d numbers here, %016lx\n", turn, n, all);
			fflush(stdout);
		}
		usleep(100000);
	}
	MPI_Finalize();
	return 0;
}
C
mpicc.mpich -O2 -o sort sort.c
srun --mpi=pmi2 ./sort
rm sort
