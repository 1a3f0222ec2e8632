#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: C: named semaphores, POSIX shared memory with robust and shared mutexes and conditions between processes
# Needs: gcc
#SBATCH --job-name=posix-ipc --ntasks=1 --output=log
set -eu
cat >ipc.c <<'C'
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TURNS = 60, WORKERS = 3 };
struct shared {
	pthread_mutex_t mutex, robust;
	pthread_cond_t turned;
	pthread_rwlock_t rw;
	pthread_barrier_t barrier;
	int turn, recovered;
	unsigned long hash;
};

static void work(struct shared *s, int me)
{
	sem_t *slots = sem_open("/corpus-slots", 0), *done = sem_open("/corpus-done", 0);
	if (slots == SEM_FAILED || done == SEM_FAILED)
		exit(1);
	for (int turn = 0; turn < TURNS; turn++) {
		pthread_mutex_lock(&s->mutex);
		while (s->turn != turn * WORKERS + me)
			pthread_cond_wait(&s->turned, &s->mutex);
		sem_wait(slots);
		pthread_rwlock_wrlock(&s->rw);
		s->hash = s->hash * 6364136223846793005u + me + turn;
		pthread_rwlock_unlock(&s->rw);
		s->turn++;
		pthread_cond_broadcast(&s->turned);
		pthread_mutex_unlock(&s->mutex);
		usleep(30000);
		sem_post(slots);
		pthread_barrier_wait(&s->barrier);
	}
	sem_post(done);
	if (me == 0) { /* dies with the mutex */
		pthread_mutex_lock(&s->robust);
		_exit(7);
	}
	exit(0);
}

int main(void)
{
	int fd = shm_open("/corpus-memory", O_CREAT | O_RDWR | O_EXCL, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(struct shared)))
		return 1;
	struct shared *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	pthread_mutexattr_t ma;
	pthread_condattr_t ca;
	pthread_rwlockattr_t ra;
	pthread_barrierattr_t ba;
	pthread_mutexattr_init(&ma), pthread_condattr_init(&ca), pthread_rwlockattr_init(&ra), pthread_barrierattr_init(&ba);
	pthread_mutexattr_setpshared(&ma, 1), pthread_condattr_setpshared(&ca, 1), pthread_rwlockattr_setpshared(&ra, 1), pthread_barrierattr_setpshared(&ba, 1);
	pthread_mutex_init(&s->mutex, &ma);
	pthread_mutexattr_setrobust(&ma, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&s->robust, &ma);
	pthread_cond_init(&s->turned, &ca);
	pthread_rwlock_init(&s->rw, &ra);
	pthread_barrier_init(&s->barrier, &ba, WORKERS);
	sem_t *slots = sem_open("/corpus-slots", O_CREAT | O_EXCL, 0600, 2), *done = sem_open("/corpus-done", O_CREAT | O_EXCL, 0600, 0);
	if (slots == SEM_FAILED || done == SEM_FAILED)
		return 1;
	puts("begins");
	fflush(stdout);
	for (int n = 0; n < WORKERS; n++)
		if (fork() == 0)
			work(s, n);
	for (int seen = 0; seen < WORKERS;) {
		struct timespec by;
		clock_gettime(CLOCK_REALTIME, &by);
		by.tv_sec += 300;
		if (sem_timedwait(done, &by) == 0)
			seen++;
		else if (errno != EINTR)
			return 2;
	}
	int codes = 0, status;
	while (wait(&status) > 0)
		codes += WEXITSTATUS(status);
	if (pthread_mutex_lock(&s->robust) == EOWNERDEAD) {
		s->recovered = 1;
		pthread_mutex_consistent(&s->robust);
	}
	pthread_mutex_unlock(&s->robust);
	int free_slots;
	sem_getvalue(slots, &free_slots);
	printf("turns %d, exit codes %d, slots %d, recovered %d, %016lx\n", s->turn, codes, free_slots, s->recovered, s->hash);
	sem_unlink("/corpus-slots"), sem_unlink("/corpus-done"), shm_unlink("/corpus-memory");
	return 0;
}
C
gcc -O1 -pthread -o ipc ipc.c
./ipc
rm ipc
