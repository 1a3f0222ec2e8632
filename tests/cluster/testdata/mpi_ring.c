// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * A program of MPI for TestMPI: in each round, a token goes around the ring, which each rank changes, and a sum over
 * all ranks is added to each rank's state. Rank 0 prints each round. The output depends only on the number of
 * ranks and rounds.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS = 4096 };

static unsigned long state[WORDS], sum[WORDS];

static void pass_token(int rank, int size, unsigned long *token)
{
	const int next = (rank + 1) % size, before = (rank + size - 1) % size;

	if (rank == 0) {
		MPI_Send(token, 1, MPI_UNSIGNED_LONG, next, 7, MPI_COMM_WORLD);
		MPI_Recv(token, 1, MPI_UNSIGNED_LONG, before, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		return;
	}
	MPI_Recv(token, 1, MPI_UNSIGNED_LONG, before, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	*token = *token * 6364136223846793005u + (unsigned long)rank + state[rank % WORDS];
	MPI_Send(token, 1, MPI_UNSIGNED_LONG, next, 7, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
	const int rounds = argc > 1 ? atoi(argv[1]) : 50;
	unsigned long token = 1;
	int rank, size;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (argc > 2 && strcmp(argv[2], "abort") == 0 && rank == 1)
		MPI_Abort(MPI_COMM_WORLD, 3);
	for (int i = 0; i < WORDS; ++i)
		state[i] = (unsigned long)(rank * WORDS + i);
	for (int round = 1; round <= rounds; ++round) {
		if (size > 1)
			pass_token(rank, size, &token);
		MPI_Bcast(&token, 1, MPI_UNSIGNED_LONG, 0, MPI_COMM_WORLD);
		MPI_Allreduce(state, sum, WORDS, MPI_UNSIGNED_LONG, MPI_SUM, MPI_COMM_WORLD);
		for (int i = 0; i < WORDS; ++i)
			state[i] = state[i] * 31 + sum[(i * 7 + rank) % WORDS] + token;
		if (rank == 0) {
			printf("%d of %d: %016lx\n", round, size, token ^ sum[round % WORDS]);
			fflush(stdout);
		}
		usleep(150000);
	}
	MPI_Finalize();

	return (0);
}
