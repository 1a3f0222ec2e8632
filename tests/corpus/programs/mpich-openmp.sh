#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: MPICH between two nodes and OpenMP within: a power iteration whose threads call MPI in turn
# Needs: mpich libmpich-dev gcc
#SBATCH --job-name=mpich-openmp --nodes=2 --ntasks-per-node=1 --output=log
set -eu
echo "compiling"
cat >power.c <<'C'
#include <mpi.h>
#include <omp.h>
#include <stdio.h>
#include <unistd.h>

enum { N = 512, TURNS = 70 };
static long m[N][N], x[N], y[N];

int main(int argc, char **argv)
{
	int rank, size, given;
	MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &given);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	const int rows = N / size;
	for (int i = 0; i < N; i++) {
		x[i] = i + 1;
		for (int k = 0; k < N; k++)
			m[i][k] = (i * 131 + k * 17) % 101 - 50;
	}
	for (int turn = 1; turn <= TURNS; turn++) {
#pragma omp parallel num_threads(3)
		{
#pragma omp for
			for (int i = rank * rows; i < (rank + 1) * rows; i++) {
				long s = 0;
				for (int k = 0; k < N; k++)
					s += m[i][k] * x[k];
				y[i] = s % 1000003;
			}
#pragma omp critical
			{ /* each thread sends a third of its own rank's rows */
				int t = omp_get_thread_num(), from = rank * rows + t * rows / 3, to = rank * rows + (t + 1) * rows / 3;
				MPI_Request sent;
				MPI_Isend(y + from, to - from, MPI_LONG, 1 - rank, t, MPI_COMM_WORLD, &sent);
				MPI_Wait(&sent, MPI_STATUS_IGNORE);
			}
		}
		for (int t = 0; t < 3; t++) {
			int from = (1 - rank) * rows + t * rows / 3, to = (1 - rank) * rows + (t + 1) * rows / 3;
			MPI_Recv(y + from, to - from, MPI_LONG, 1 - rank, t, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		}
		unsigned long hash = 0;
		for (int i = 0; i < N; i++)
			hash = hash * 31 + (x[i] = y[i]);
		if (rank == 0 && turn % 14 == 0) {
			printf("turn %d: %016lx\n", turn, hash);
			fflush(stdout);
		}
		usleep(80000);
	}
	MPI_Finalize();
	return 0;
}
C
mpicc.mpich -O2 -fopenmp -o power power.c
mpiexec.mpich -n 2 -ppn 1 ./power
rm power
