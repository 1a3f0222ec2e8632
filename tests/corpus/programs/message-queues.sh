#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: C: a POSIX message queue with priorities between forks, beside System V queues, semaphores and shared memory
# Needs: gcc
#SBATCH --job-name=message-queues --ntasks=1 --output=log
set -eu
cat >queues.c <<'C'
#include <fcntl.h>
#include <mqueue.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TURNS = 80 };
struct note { long type; char text[64]; };

int main(void)
{
	struct mq_attr attr = {.mq_maxmsg = 8, .mq_msgsize = 64};
	mqd_t q = mq_open("/corpus-queue", O_CREAT | O_RDWR | O_EXCL, 0600, &attr);
	int notes = msgget(IPC_PRIVATE, 0600), sem = semget(IPC_PRIVATE, 2, 0600), id = shmget(IPC_PRIVATE, 4096, 0600);
	if (q < 0 || notes < 0 || sem < 0 || id < 0)
		return 1;
	unsigned long *sums = shmat(id, NULL, 0);
	semctl(sem, 0, SETVAL, 4);
	puts("begins");
	fflush(stdout);
	if (fork() == 0) {
		for (int turn = 0; turn < TURNS; turn++) {
			struct sembuf take = {0, -1, 0};
			if (semop(sem, &take, 1))
				_exit(1);
			char text[64];
			snprintf(text, sizeof(text), "turn %d", turn);
			if (mq_send(q, text, sizeof(text), turn % 3))
				_exit(2);
			struct note n = {.type = 1 + turn % 2};
			memcpy(n.text, text, sizeof(text));
			if (msgsnd(notes, &n, sizeof(n.text), 0))
				_exit(3);
			usleep(60000);
		}
		_exit(0);
	}
	for (int turn = 0; turn < TURNS; turn++) {
		char text[64];
		unsigned priority;
		if (mq_receive(q, text, sizeof(text), &priority) < 0)
			return 2;
		struct note n;
		if (msgrcv(notes, &n, sizeof(n.text), 0, 0) < 0)
			return 3;
		sums[0] += atoi(text + 5) * (priority + 1), sums[1] += atoi(n.text + 5) * n.type;
		struct sembuf give = {0, 1, 0};
		if (semop(sem, &give, 1))
			return 4;
		if (turn % 20 == 19) {
			printf("turn %d: %lu %lu\n", turn + 1, sums[0], sums[1]);
			fflush(stdout);
		}
	}
	int status;
	wait(&status);
	printf("exit code %d, slots %d\n", WEXITSTATUS(status), semctl(sem, 0, GETVAL));
	mq_unlink("/corpus-queue");
	shmctl(id, IPC_RMID, NULL), semctl(sem, 0, IPC_RMID), msgctl(notes, IPC_RMID, NULL);
	return 0;
}
C
gcc -O1 -o queues queues.c
./queues
rm queues
