// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "load.h"

#include <setjmp.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * A thread that writes nonsense into the ring: near the heads, into the beginnings of
 * lanes, anywhere.
 */
void *scribbler(void *arg)
{
	static const size_t heads[] = { 128, 132, 256, 384, 388, 512 };
	const uint64_t most = (uint64_t)(uintptr_t)arg;
	uint64_t state = seed ^ 0x5c21bb1e;

	for (uint64_t i = 0; !most || i < most; i++) {
		const uint64_t x = next(&state);
		size_t at = 0;
		uint32_t value = (uint32_t)next(&state);

		switch (x % 512) {
		case 0:
			at = heads[(x >> 9) % 6];
			break;
		case 1 ... 20:
			at = SING_LANES_AT + (x >> 9) % 1024;
			break;
		case 21 ... 50:
			at = (x >> 9) % SING_RING_SIZE;
			break;
		default: /* the head of a message that could be waiting */
			at = SING_UNIT * (SING_FIRST_UNIT + (x >> 9) % 4 * SING_LANE_UNITS + (x >> 16) % 64) + (x >> 32) % 48;
		}
		if (x >> 40 & 1)
			value %= SING_FIRST_UNIT + 4 * SING_LANE_UNITS;
		at &= ~(size_t)3;
		if (at >= 256 || x >> 41 & 1)
			*(volatile uint32_t *)(raw_ring + at) = value;
	}

	return (NULL);
}

/* The handler sends a message in the middle of another message. */
_Atomic uint64_t interrupted;

void interrupt(int signal)
{
	(void)signal;
	const uint64_t n = atomic_fetch_add(&interrupted, 1);

	CHECK(say(OP_SINK, n % 2, n) == RING_OK);
}

/* The handlers' stack is above the frames that they interrupt. */
void *burst_aside(void *arg)
{
	char above[65536];
	stack_t alt = { .ss_sp = above, .ss_size = sizeof(above) };
	void *rv;

	CHECK(!sigaltstack(&alt, NULL));
	rv = burst(arg);
	alt.ss_flags = SS_DISABLE;
	CHECK(!sigaltstack(&alt, NULL));

	return (rv);
}

void *interrupter(void *arg)
{
	const pthread_t *victims = arg;

	while (!atomic_load(&enough))
		for (unsigned int i = 0; i < threads && !atomic_load(&enough); i++) {
			pthread_kill(victims[i], SIGUSR1);
			sched_yield();
		}

	return (NULL);
}

static sigjmp_buf back;

void jump(int signal)
{
	(void)signal;
	siglongjmp(back, 1);
}

/* Begin a message that is left by a jump: staged, or a call that has no answer yet. */
static void __attribute__((noinline)) begin_hold(bool staged, unsigned int depth)
{
	struct ring_need need = { .op = OP_HOLD, .call = true, .size = 8, .room = 64 };
	struct ring_draft d;
	volatile char stack[256];

	stack[0] = 0;
	if (depth) {
		begin_hold(staged, depth - 1);
		stack[0] = 1; /* no tail call */
		return;
	}
	CHECK(ring_stage(&d, &need) == RING_OK);
	memset(d.args, stack[0], 8);
	if (staged)
		raise(SIGUSR2); /* jumps */
	ring_call(&d);		/* the other end sends SIGUSR2 */
	CHECK(stack[0]); /* no answer comes in time */
}

/* With a second thread: all messages after the first are begun further down the stack. */
void abandon(void)
{
	for (volatile unsigned int i = 0; i < messages; i++) {
		CHECK(say(OP_SINK, true, i) == RING_OK);
		if (!sigsetjmp(back, 1))
			begin_hold(i % 2, threads > 1 && i ? 5 : 0);
	}
}

/* A thread that is cancelled at any instruction. */
void *victim(void *arg)
{
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	for (uint64_t i = 0;; i++)
		if (say(OP_SINK, i % 2, (uintptr_t)arg) != RING_OK)
			return (NULL);
}

void *leaver(void *arg)
{
	CHECK(say(OP_SINK, false, (uintptr_t)arg) == RING_OK);
	syscall(SYS_exit, 0);

	return (NULL);
}

void forks(void)
{
	for (unsigned int i = 0; i < messages; i++) {
		int status;
		pid_t pid;

		CHECK(say(OP_SINK, false, i) == RING_OK);
		/*
		 * Every other fork is the bare system call, for which no handler of
		 * pthread_atfork runs.
		 */
		pid = i % 2 ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
		if (!pid) {
			uint32_t fault = ring_fault();
			_exit(say(OP_SINK, true, i) == RING_FORKED && !fault ? 0 : 1);
		}
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	}
}
