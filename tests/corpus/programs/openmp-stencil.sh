#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: C with OpenMP, as many threads as it is given: heat in a box, tasks, a sort in parallel, locks
# Needs: gcc
#SBATCH --job-name=openmp-stencil --ntasks=1 --output=log
set -eu
echo "compiling"
cat >heat.c <<'C'
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 64, TURNS = 60, KEYS = 1 << 16 };
static double a[N][N][N], b[N][N][N];
static unsigned keys[KEYS], spare[KEYS];

static void sort(unsigned *k, unsigned *s, int n)
{
	if (n < 2)
		return;
	int half = n / 2;
#pragma omp task if (n > 2048)
	sort(k, s, half);
#pragma omp task if (n > 2048)
	sort(k + half, s + half, n - half);
#pragma omp taskwait
	memcpy(s, k, n * sizeof(*k));
	for (int i = 0, l = 0, r = half; i < n; i++)
		k[i] = r >= n || (l < half && s[l] <= s[r]) ? s[l++] : s[r++];
}

int main(void)
{
	unsigned long seed = 1, hash = 0, count = 0;
	omp_lock_t lock;
	omp_init_lock(&lock);
	for (int turn = 1; turn <= TURNS; turn++) {
		a[N / 2][N / 2][turn % N] = 1000;
		for (int again = 0; again < 4; again++) {
#pragma omp parallel for collapse(2) schedule(dynamic, 16)
			for (int x = 1; x < N - 1; x++)
				for (int y = 1; y < N - 1; y++)
					for (int z = 1; z < N - 1; z++)
						b[x][y][z] = a[x][y][z] + 0.1 * (a[x - 1][y][z] + a[x + 1][y][z] + a[x][y - 1][z] + a[x][y + 1][z] + a[x][y][z - 1] + a[x][y][z + 1] - 6 * a[x][y][z]);
#pragma omp parallel sections
			{
#pragma omp section
				memcpy(a, b, sizeof(a) / 2);
#pragma omp section
				memcpy((char *)a + sizeof(a) / 2, (char *)b + sizeof(b) / 2, sizeof(a) / 2);
			}
		}
		for (int i = 0; i < KEYS; i++)
			keys[i] = (seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33;
#pragma omp parallel
#pragma omp single
		sort(keys, spare, KEYS);
#pragma omp parallel for
		for (int i = 0; i < 200; i++) {
			omp_set_lock(&lock);
			count += i;
			omp_unset_lock(&lock);
		}
		double warmest = 0;
#pragma omp parallel for reduction(max : warmest)
		for (int i = 0; i < N * N * N; i++)
			warmest = a[0][0][i] > warmest ? a[0][0][i] : warmest;
		for (int i = 0; i < KEYS; i += 97)
			hash = hash * 31 + keys[i];
		if (turn % 12 == 0) {
			printf("turn %d: %a %016lx %lu\n", turn, warmest, hash, count);
			fflush(stdout);
		}
		usleep(60000);
	}
	return 0;
}
C
gcc -O2 -fopenmp -o heat heat.c
./heat
rm heat
