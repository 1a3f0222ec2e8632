// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* cuLaunchHostFunc and cuStreamAddCallback: see hostfunc.h. */
#include "hostfunc.h"
#include "capture.h"
#include "transport.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct owed {
	struct owed *next;
	uint64_t ticket;
	struct sing_host_func f;
};

#define BUCKETS 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct owed *owed[BUCKETS];
static uint64_t tickets;
static bool running; /* the thread has been started */

static struct owed **find_owed(uint64_t ticket)
{
	struct owed **o = &owed[ticket % BUCKETS];

	while (*o != NULL && (*o)->ticket != ticket)
		o = &(*o)->next;
	return o;
}

bool sing_host_find(uint64_t ticket, struct sing_host_func *f)
{
	const struct owed *o;

	pthread_mutex_lock(&lock);
	o = *find_owed(ticket);
	if (o != NULL)
		*f = o->f;
	pthread_mutex_unlock(&lock);
	return o != NULL;
}

void sing_host_forget(uint64_t ticket)
{
	struct owed **at, *o;

	pthread_mutex_lock(&lock);
	at = find_owed(ticket);
	o = *at;
	if (o != NULL)
		*at = o->next;
	pthread_mutex_unlock(&lock);
	free(o);
}

/*
 * Call a function. After a fault a callback is called with the fault, and a host function is not
 * called.
 */
static void call_function(const struct sing_host_func *f, CUresult status)
{
	sing_host_func_enters(true);
	/*
	 * While a function runs, sing_capture_watch checks each message: the function may send
	 * none.
	 */
	atomic_fetch_add_explicit(&sing_capture_count, 1, memory_order_relaxed);
	if (f->callback != NULL)
		f->callback(f->stream, status, f->user);
	else if (status == CUDA_SUCCESS)
		f->call(f->user);
	atomic_fetch_sub_explicit(&sing_capture_count, 1, memory_order_relaxed);
	sing_host_func_enters(false);
}

static void *serve_functions(void *unused)
{
	struct sing_host_func f;
	unsigned long long ticket;
	unsigned int last;
	int status;

	(void)unused;
	for (;;) {
		if (sing_send_host_func_next(0, &ticket, &status, &last) != CUDA_SUCCESS)
			break; /* there is no server any more */
		if (ticket == 0)
			continue;
		if (sing_host_find(ticket, &f)) {
			call_function(&f, status);
			if (last)
				sing_host_forget(ticket);
		}
		sing_send_host_func_done(0, ticket);
	}
	pthread_mutex_lock(&lock);
	running = false;
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* The caller holds the lock. */
static bool start_thread(void)
{
	sigset_t all, old;
	pthread_t thread;
	int error;

	if (running)
		return true;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	error = pthread_create(&thread, NULL, serve_functions, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (error != 0)
		return false;
	pthread_detach(thread);
	running = true;
	return true;
}

CUresult sing_host_ticket(const struct sing_host_func *f, uint64_t *ticket)
{
	struct owed *o = malloc(sizeof(*o));
	bool started;

	if (o == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	o->f = *f;
	pthread_mutex_lock(&lock);
	started = start_thread();
	if (started) {
		*ticket = o->ticket = ++tickets;
		o->next = owed[o->ticket % BUCKETS];
		owed[o->ticket % BUCKETS] = o;
	}
	pthread_mutex_unlock(&lock);
	if (!started)
		free(o);
	return started ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

static CUresult post_function(CUstream stream, const struct sing_host_func *f)
{
	uint64_t ticket;
	CUresult r = sing_host_ticket(f, &ticket);

	if (r != CUDA_SUCCESS)
		return r;
	r = sing_send_host_func(0, stream, ticket);
	if (r != CUDA_SUCCESS)
		sing_host_forget(ticket);
	return r;
}

static CUstream of_thread(CUstream stream)
{
	return stream == NULL ? (CUstream)2 : stream;
}

CUresult sing_cuLaunchHostFunc(CUstream stream, void *function, void *user)
{
	/* A function is as wide as a pointer wherever there is CUDA. */
	const struct sing_host_func f = { .call = (void (*)(void *))(uintptr_t)function, .stream = stream, .user = user };

	return function == NULL ? CUDA_ERROR_INVALID_VALUE : post_function(stream, &f);
}
SING_PUBLIC(cuLaunchHostFunc);

CUresult sing_cuLaunchHostFunc_ptsz(CUstream stream, void *function, void *user)
{
	return sing_cuLaunchHostFunc(of_thread(stream), function, user);
}
SING_PUBLIC(cuLaunchHostFunc_ptsz);

static CUresult add_callback(CUstream stream, CUstream shown, void *function, void *user, unsigned int flags)
{
	const struct sing_host_func f = {
		.callback = (void (*)(CUstream, CUresult, void *))(uintptr_t)function, .stream = shown, .user = user
	};
	CUresult r;

	if (function == NULL || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	r = sing_capture_refuse(stream, false);
	return r != CUDA_SUCCESS ? r : post_function(stream, &f);
}

CUresult sing_cuStreamAddCallback(CUstream stream, void *function, void *user, unsigned int flags)
{
	return add_callback(stream, stream, function, user, flags);
}
SING_PUBLIC(cuStreamAddCallback);

CUresult sing_cuStreamAddCallback_ptsz(CUstream stream, void *function, void *user, unsigned int flags)
{
	return add_callback(of_thread(stream), stream, function, user, flags);
}
SING_PUBLIC(cuStreamAddCallback_ptsz);
