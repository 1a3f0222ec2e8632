#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: FFTW in C, started by srun --mpi=pmix on two nodes: transforms in three dimensions that turn a wave, slabs exchanged by all
# Needs: openmpi-bin libfftw3-mpi-dev libfftw3-dev libopenmpi-dev gcc
# First: --singularity
# Without it Slurm has to serve PMIx, and that of Debian cannot.
#SBATCH --job-name=fftw-srun --nodes=2 --ntasks=4 --overcommit --output=log
set -eu
echo "compiling"
cat >wave.c <<'C'
#include <complex.h>
#include <fftw3-mpi.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	const ptrdiff_t n = 48;
	ptrdiff_t mine, start;
	int rank;

	MPI_Init(&argc, &argv);
	fftw_mpi_init();
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	ptrdiff_t size = fftw_mpi_local_size_3d(n, n, n, MPI_COMM_WORLD, &mine, &start);
	fftw_complex *field = fftw_alloc_complex(size);
	fftw_plan there = fftw_mpi_plan_dft_3d(n, n, n, field, field, MPI_COMM_WORLD, FFTW_FORWARD, FFTW_ESTIMATE);
	fftw_plan back = fftw_mpi_plan_dft_3d(n, n, n, field, field, MPI_COMM_WORLD, FFTW_BACKWARD, FFTW_ESTIMATE);
	for (ptrdiff_t x = 0; x < mine; x++)
		for (ptrdiff_t y = 0; y < n; y++)
			for (ptrdiff_t z = 0; z < n; z++)
				field[(x * n + y) * n + z] = exp(-0.01 * (pow(x + start - 20, 2) + pow(y - 24, 2) + pow(z - 28, 2)));
	for (int step = 1; step <= 60; step++) {
		double local[2] = { 0, 0 }, sum[2];
		fftw_execute(there);
		for (ptrdiff_t x = 0; x < mine; x++)
			for (ptrdiff_t y = 0; y < n; y++)
				for (ptrdiff_t z = 0; z < n; z++) {
					double kx = (x + start + n / 2) % n - n / 2, ky = (y + n / 2) % n - n / 2, kz = (z + n / 2) % n - n / 2;
					field[(x * n + y) * n + z] *= cexp(-I * 0.002 * (kx * kx + ky * ky + kz * kz)) / (n * n * n);
				}
		fftw_execute(back);
		for (ptrdiff_t i = 0; i < mine * n * n; i++) {
			local[0] += cabs(field[i]);
			local[1] += creal(field[i]) * cos(i);
		}
		MPI_Reduce(local, sum, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
		if (rank == 0 && step % 5 == 0) {
			printf("step %d: %.8f %.8f\n", step, sum[0], sum[1]);
			fflush(stdout);
		}
		usleep(100000);
	}
	fftw_destroy_plan(there);
	fftw_destroy_plan(back);
	fftw_mpi_cleanup();
	MPI_Finalize();
	return 0;
}
C
mpicc.openmpi -O1 -o wave wave.c -lfftw3_mpi -lfftw3 -lm
srun --mpi=pmix ./wave
rm wave wave.c
