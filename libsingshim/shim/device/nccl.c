// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "nccl.h"

#include "transport.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * The last error of the process. A caller that asks for the error gets the address of this memory, as with
 * NCCL, and may read the text while another thread writes the next error.
 */
enum { TEXT = 1024 };
static char last[TEXT];
static pthread_mutex_t last_lock = PTHREAD_MUTEX_INITIALIZER;

ncclResult_t sing_nccl_fail(ncclResult_t result, const char *form, ...)
{
	va_list args;

	va_start(args, form);
	pthread_mutex_lock(&last_lock);
	vsnprintf(last, sizeof(last), form, args);
	pthread_mutex_unlock(&last_lock);
	va_end(args);
	return result;
}

const char *sing_ncclGetLastError(ncclComm_t comm)
{
	(void)comm; /* NCCL has this parameter, but does not read it */
	return last;
}
SING_PUBLIC(ncclGetLastError);

ncclResult_t sing_nccl_result(int result)
{
	if (result >= 0 && result <= ncclTimeout)
		return result;
	return sing_nccl_fail(ncclUnhandledCudaError, "the device has failed: error %d", result);
}

unsigned int sing_nccl_size(int type)
{
	static const unsigned char sizes[ncclNumTypes] = {
		[ncclInt8] = 1,	   [ncclUint8] = 1,   [ncclInt32] = 4,	 [ncclUint32] = 4,   [ncclInt64] = 8,	   [ncclUint64] = 8,
		[ncclFloat16] = 2, [ncclFloat32] = 4, [ncclFloat64] = 8, [ncclBfloat16] = 2, [ncclFloat8e4m3] = 1, [ncclFloat8e5m2] = 1,
	};

	return type >= 0 && type < ncclNumTypes ? sizes[type] : 0;
}

/* All communicators, by handle. Communicators are only ever added, so that finding takes no lock. */
enum { BUCKETS = 256 };
static struct sing_comm *_Atomic comms[BUCKETS];

struct sing_comm *sing_comm_enter(ncclComm_t handle, bool blocking)
{
	struct sing_comm *c = calloc(1, sizeof(*c));
	struct sing_comm *_Atomic *at = &comms[(uintptr_t)handle % BUCKETS];

	if (c == NULL)
		return NULL;
	c->handle = handle;
	c->blocking = blocking;
	pthread_mutex_init(&c->lock, NULL);
	c->next = atomic_load(at);
	while (!atomic_compare_exchange_weak(at, &c->next, c))
		;
	return c;
}

struct sing_comm *sing_comm_find(ncclComm_t handle)
{
	struct sing_comm *c = atomic_load_explicit(&comms[(uintptr_t)handle % BUCKETS], memory_order_acquire);

	while (c != NULL && c->handle != handle)
		c = c->next;
	if (handle != NULL && c != NULL && atomic_load(&c->state) != SING_COMM_ENDED)
		return c;
	sing_nccl_fail(ncclInvalidArgument, c != NULL ? "communicator %p was destroyed" : "%p is no communicator", (void *)handle);
	return NULL;
}

/* Fetch the reason from the server, at the first error only. */
static void note_error(struct sing_comm *c, int error)
{
	char why[TEXT] = "";
	int none = ncclSuccess;

	if (!atomic_compare_exchange_strong(&c->error, &none, error))
		return;
	if (sing_send_comm_error(0, c->handle, why, sizeof(why)) == ncclSuccess)
		sing_nccl_fail(error, "%s", why);
}

ncclResult_t sing_comm_ask(struct sing_comm *c, bool wait)
{
	int making = SING_COMM_MAKING;
	int error, ranks, rank, dev;

	/*
	 * A server that waits for the other members answers after a while, or when there is to be a cut: ask
	 * again.
	 */
	do {
		const int r = sing_send_comm_state(0, c->handle, wait, &error, &ranks, &rank, &dev);

		if (r != ncclSuccess)
			return sing_nccl_result(r);
	} while (wait && error == ncclInProgress);
	if (error == ncclInProgress)
		return error;
	if (error != ncclSuccess) {
		note_error(c, error);
		return error;
	}
	if (atomic_load(&c->state) == SING_COMM_MAKING) {
		pthread_mutex_lock(&c->lock);
		c->ranks = ranks;
		c->rank = rank;
		c->dev = dev;
		pthread_mutex_unlock(&c->lock);
		atomic_compare_exchange_strong(&c->state, &making, SING_COMM_READY);
	}
	return ncclSuccess;
}

ncclResult_t sing_comm_ready(ncclComm_t handle, struct sing_comm **found)
{
	struct sing_comm *c = sing_comm_find(handle);

	*found = c;
	if (c == NULL)
		return ncclInvalidArgument;
	if (atomic_load(&c->error) != ncclSuccess)
		return atomic_load(&c->error);
	if (atomic_load(&c->state) == SING_COMM_MAKING) {
		const int r = sing_comm_ask(c, false);

		if (r == ncclInProgress)
			return sing_nccl_fail(ncclInvalidArgument, "communicator %p is used before it is ready", (void *)handle);
		return r;
	}
	return ncclSuccess;
}

ncclResult_t sing_ncclCommGetAsyncError(ncclComm_t comm, int *error)
{
	struct sing_comm *c;
	int r;

	if (error == NULL)
		return sing_nccl_fail(ncclInvalidArgument, "ncclCommGetAsyncError: error is NULL");
	c = sing_comm_find(comm);
	if (c == NULL)
		return ncclInvalidArgument;
	r = atomic_load(&c->error);
	if (r == ncclSuccess)
		r = sing_comm_ask(c, false);
	*error = r;
	return ncclSuccess;
}
SING_PUBLIC(ncclCommGetAsyncError);

/* Read a number of a communicator, once the communicator is ready. */
static ncclResult_t read_number(ncclComm_t comm, int *to, size_t at)
{
	struct sing_comm *c;
	int r;

	if (to == NULL)
		return sing_nccl_fail(ncclInvalidArgument, "there is no place for the answer");
	r = sing_comm_ready(comm, &c);
	if (r == ncclSuccess)
		*to = *(const int *)((const char *)c + at);
	return r;
}

ncclResult_t sing_ncclCommCount(ncclComm_t comm, int *n)
{
	return read_number(comm, n, offsetof(struct sing_comm, ranks));
}
SING_PUBLIC(ncclCommCount);

ncclResult_t sing_ncclCommUserRank(ncclComm_t comm, int *rank)
{
	return read_number(comm, rank, offsetof(struct sing_comm, rank));
}
SING_PUBLIC(ncclCommUserRank);

ncclResult_t sing_ncclCommCuDevice(ncclComm_t comm, int *dev)
{
	return read_number(comm, dev, offsetof(struct sing_comm, dev));
}
SING_PUBLIC(ncclCommCuDevice);
