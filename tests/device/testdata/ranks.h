// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Ranks of a communicator, for programs of this folder: as processes, or as threads of a process. */
#ifndef RANKS_H
#define RANKS_H

#include "check.h"

#include <nccl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* The call must return that. */
#define NWANT(want, call)                                                                                            \
	do {                                                                                                         \
		ncclResult_t got_ = (call), want_ = (want);                                                          \
		if (got_ != want_) {                                                                                 \
			fprintf(stderr, "%s:%d: %s: %d, want %d: %s\n", __FILE__, __LINE__, #call, got_, want_,      \
				ncclGetLastError(NULL));                                                             \
			exit(1);                                                                                     \
		}                                                                                                    \
	} while (0)

#define NOK(call) NWANT(ncclSuccess, call)

enum { MOST_RANKS = 4, MEMORY = 1 << 20 };

struct rank {
	int rank, ranks;
	CUcontext ctx;
	CUstream stream;
	CUdeviceptr src, dst; /* MEMORY bytes each */
	ncclComm_t comm;
	ncclUniqueId id;
};

/* Shared by ranks that are processes. */
struct shared {
	ncclUniqueId id;
	_Atomic int there;
	_Atomic int step;
	int pids[MOST_RANKS];
};

static struct shared *shared;

static inline void *share_memory(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	HOLDS(p != MAP_FAILED);
	return (p);
}

/* Wait until the other ranks have come to a step, too. */
static inline void meet_ranks(int step)
{
	while (atomic_load(&shared->step) < step)
		usleep(1000);
}

/* A context on a device, a stream, memory. */
static inline void open_device(struct rank *r, int dev)
{
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&r->ctx, dev));
	OK(cuCtxSetCurrent(r->ctx));
	OK(cuStreamCreate(&r->stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc(&r->src, MEMORY));
	OK(cuMemAlloc(&r->dst, MEMORY));
}

/* The communicator's identity: rank 0 makes the identity for all ranks. */
static inline void exchange_id(struct rank *r)
{
	if (r->rank == 0) {
		NOK(ncclGetUniqueId(&shared->id));
		atomic_store(&shared->there, 1);
	}
	while (!atomic_load(&shared->there))
		usleep(1000);
	r->id = shared->id;
}

static inline void open_rank(struct rank *r)
{
	open_device(r, r->rank);
	exchange_id(r);
	NOK(ncclCommInitRank(&r->comm, r->ranks, r->id, r->rank));
}

typedef void body(struct rank *r);

/* Run a body as processes that have not used CUDA before. The first to fail says so by its exit code. */
static inline void as_processes(int n, body *f)
{
	int bad = 0;

	shared = share_memory(sizeof(*shared));
	for (int i = 0; i < n; ++i) {
		const pid_t pid = fork();

		HOLDS(pid >= 0);
		if (pid == 0) {
			struct rank r = { .rank = i, .ranks = n };

			f(&r);
			exit(0);
		}
		shared->pids[i] = pid;
	}
	for (int i = 0; i < n; ++i) {
		int status;

		HOLDS(waitpid(shared->pids[i], &status, 0) == shared->pids[i]);
		if (status != 0 && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
			bad = 1;
	}
	HOLDS(!bad);
	munmap(shared, sizeof(*shared));
}

struct thread {
	struct rank r;
	body *f;
	pthread_t id;
};

static inline void *run_thread(void *p)
{
	struct thread *t = p;

	t->f(&t->r);
	return (NULL);
}

/* The same as threads of a single process, which has not used CUDA either. */
static inline void as_threads(int n, body *f)
{
	const pid_t pid = fork();
	int status;

	HOLDS(pid >= 0);
	if (pid == 0) {
		struct thread t[MOST_RANKS];

		shared = share_memory(sizeof(*shared));
		for (int i = 0; i < n; ++i) {
			t[i] = (struct thread){ .r = { .rank = i, .ranks = n }, .f = f };
			HOLDS(pthread_create(&t[i].id, NULL, run_thread, &t[i]) == 0);
		}
		for (int i = 0; i < n; ++i)
			HOLDS(pthread_join(t[i].id, NULL) == 0);
		exit(0);
	}
	HOLDS(waitpid(pid, &status, 0) == pid && status == 0);
}

/* Wait for a communicator that does not block, and return the result. */
static inline ncclResult_t settle_comm(ncclComm_t comm)
{
	ncclResult_t r;

	do {
		NOK(ncclCommGetAsyncError(comm, &r));
		if (r == ncclInProgress)
			usleep(1000);
	} while (r == ncclInProgress);
	return (r);
}

#endif
