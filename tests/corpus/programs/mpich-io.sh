#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: MPICH on two nodes writes one file together by MPI-IO: collective, strided, with a shared pointer; reads it back
# Needs: mpich libmpich-dev gcc
#SBATCH --job-name=mpich-io --nodes=2 --ntasks-per-node=1 --output=log
set -eu
echo "compiling"
cat >io.c <<'C'
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

enum { BLOCK = 4096, TURNS = 60 };

int main(int argc, char **argv)
{
	int rank, size;
	static unsigned mine[BLOCK], back[BLOCK];
	unsigned long hash = 0, all;
	MPI_File f;
	MPI_Datatype every;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (MPI_File_open(MPI_COMM_WORLD, "together", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f))
		MPI_Abort(MPI_COMM_WORLD, 1);
	MPI_Type_vector(BLOCK / 64, 64, 64 * size, MPI_UNSIGNED, &every);
	MPI_Type_commit(&every);
	for (int turn = 0; turn < TURNS; turn++) {
		MPI_Offset at = (MPI_Offset)turn * BLOCK * size * sizeof(unsigned);
		for (int i = 0; i < BLOCK; i++)
			mine[i] = (turn * 7919 + i) * (rank + 1) ^ hash;
		MPI_File_set_view(f, at + rank * 64 * sizeof(unsigned), MPI_UNSIGNED, every, "native", MPI_INFO_NULL);
		MPI_File_write_all(f, mine, BLOCK, MPI_UNSIGNED, MPI_STATUS_IGNORE);
		MPI_File_sync(f);
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_File_set_view(f, at, MPI_UNSIGNED, MPI_UNSIGNED, "native", MPI_INFO_NULL);
		MPI_File_read_at(f, (MPI_Offset)((rank + 1) % size) * BLOCK, back, BLOCK, MPI_UNSIGNED, MPI_STATUS_IGNORE);
		for (int i = 0; i < BLOCK; i++)
			hash = hash * 31 + back[i];
		MPI_Allreduce(&hash, &all, 1, MPI_UNSIGNED_LONG, MPI_BXOR, MPI_COMM_WORLD);
		hash += all;
		if (rank == 0 && turn % 12 == 11) {
			printf("turn %d: %016lx\n", turn + 1, all);
			fflush(stdout);
		}
		usleep(80000);
	}
	MPI_File_close(&f);
	MPI_Finalize();
	return 0;
}
C
mpicc.mpich -O2 -o io io.c
mpiexec.mpich -n 2 -ppn 1 ./io
rm io
sha256sum together
