#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: MPICH over TCP, one rank on each of two nodes: heat on a plate, halo exchange, reductions
# Needs: mpich libmpich-dev gcc
#SBATCH --job-name=mpich-heat --nodes=2 --ntasks-per-node=1 --output=log
set -eu
echo "compiling"
cat >heat.c <<'C'
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 64, COLS = 128, TURNS = 80 };
static double a[ROWS + 2][COLS], b[ROWS + 2][COLS];

int main(int argc, char **argv)
{
	int rank, size;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	int up = rank > 0 ? rank - 1 : MPI_PROC_NULL, down = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
	char name[32];
	snprintf(name, sizeof(name), "rank.%d", rank);
	FILE *out = fopen(name, "w");
	for (int r = 1; r <= ROWS; r++)
		for (int c = 0; c < COLS; c++)
			a[r][c] = ((rank * ROWS + r) * 37 + c * 101) % 1000 / 1000.0;
	for (int turn = 1; turn <= TURNS; turn++) {
		for (int k = 0; k < 20; k++) {
			MPI_Request q[4];
			MPI_Irecv(a[0], COLS, MPI_DOUBLE, up, 1, MPI_COMM_WORLD, &q[0]);
			MPI_Irecv(a[ROWS + 1], COLS, MPI_DOUBLE, down, 2, MPI_COMM_WORLD, &q[1]);
			MPI_Isend(a[1], COLS, MPI_DOUBLE, up, 2, MPI_COMM_WORLD, &q[2]);
			MPI_Isend(a[ROWS], COLS, MPI_DOUBLE, down, 1, MPI_COMM_WORLD, &q[3]);
			MPI_Waitall(4, q, MPI_STATUSES_IGNORE);
			for (int r = 1; r <= ROWS; r++)
				for (int c = 0; c < COLS; c++)
					b[r][c] = (a[r - 1][c] + a[r + 1][c] + a[r][(c + 1) % COLS] + a[r][(c + COLS - 1) % COLS]) / 4;
			memcpy(a[1], b[1], sizeof(double) * ROWS * COLS);
		}
		double sum = 0, all, edge[COLS];
		for (int r = 1; r <= ROWS; r++)
			for (int c = 0; c < COLS; c++)
				sum += a[r][c] * (r ^ c);
		MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
		memcpy(edge, a[turn % ROWS + 1], sizeof(edge));
		MPI_Bcast(edge, COLS, MPI_DOUBLE, turn % size, MPI_COMM_WORLD);
		a[1][turn % COLS] += edge[turn % 7];
		fprintf(out, "%d %a %a\n", turn, sum, all);
		fflush(out);
		if (rank == 0 && turn % 16 == 0) {
			printf("turn %d: %a\n", turn, all);
			fflush(stdout);
		}
		usleep(80000);
	}
	fclose(out);
	MPI_Finalize();
	return 0;
}
C
mpicc.mpich -O2 -o heat heat.c
mpiexec.mpich -n 2 -ppn 1 ./heat
rm heat
sha256sum rank.0 rank.1
