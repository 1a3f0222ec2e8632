// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* The lock of captures, and each thread's number, mode and waits: see capture.h. */
#include "capture.h"
#include "hostfunc.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t threads;
/* In a single struct: each thread-local variable costs the program's start a relocation. */
static _Thread_local struct {
	uint64_t number;
	int mode;
	bool in_host_func, own_wait;
} self __attribute__((tls_model("initial-exec")));

/*
 * A child of fork has no device, and must not wait for a lock that was held by a thread of
 * its parent.
 */
static void renew_lock(void)
{
	pthread_mutex_init(&lock, NULL);
}

static void watch_fork(void)
{
	pthread_atfork(NULL, NULL, renew_lock);
}

void sing_capture_lock(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch_fork);
	pthread_mutex_lock(&lock);
}

void sing_capture_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

uint64_t sing_capture_thread(void)
{
	if (self.number == 0)
		self.number = atomic_fetch_add(&threads, 1) + 1;
	return self.number;
}

uint64_t sing_capture_key(CUstream stream, bool per_thread)
{
	const uint64_t value = (uint64_t)(uintptr_t)stream;

	if (value == 2 || (value == 0 && per_thread))
		return UINT64_C(1) << 63 | sing_capture_thread();
	return value == 0 ? SING_LEGACY_KEY : value;
}

int sing_capture_thread_mode(void)
{
	return self.mode;
}

int sing_capture_mode(int mode)
{
	const int old = self.mode;

	self.mode = mode;
	return old;
}

void sing_capture_own_wait(bool begins)
{
	self.own_wait = begins;
}

bool sing_capture_is_own_wait(void)
{
	return self.own_wait;
}

bool sing_in_host_func(void)
{
	return self.in_host_func;
}

void sing_host_func_enters(bool in)
{
	self.in_host_func = in;
}
