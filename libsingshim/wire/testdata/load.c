// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * load WHAT THREADS MESSAGES SEED: a process that uses the ring it has as descriptor 3, as
 * the tests of package wire expect it. What each of them must see is said there.
 */
#define _GNU_SOURCE
#include "../../shim/ring.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Operations that the other end knows. */
enum {
	OP_CHECK = 1, /* arguments: header and random bytes; the bulk goes on with them */
	OP_ECHO = 2,  /* a call: the same, and they come back, backwards */
	OP_STAMP = 3, /* arguments: a number that grows from message to message */
	OP_COUNT = 4,
	OP_HOLD = 5, /* a call that is answered when the other end likes */
	OP_PING = 6, /* a call that is answered at once */
	OP_SINK = 7,
};

struct header {
	uint64_t thread, number, seed;
};

static uint64_t seed;
static char *raw_ring;
static unsigned int threads, messages;

#define CHECK(x)                                                                                 \
	do {                                                                                     \
		if (!(x)) {                                                                      \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);                  \
			abort();                                                                 \
		}                                                                                \
	} while (0)

static uint64_t next(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;

	return (x ^ x >> 31);
}

static void fill(uint64_t *state, unsigned char *at, size_t n)
{
	for (; n >= 8; at += 8, n -= 8) {
		const uint64_t x = next(state);

		memcpy(at, &x, 8);
	}
	const uint64_t x = next(state);
	memcpy(at, &x, n);
}

/* Most messages are small, some are as large as can be. */
static uint32_t length(uint64_t *state, uint32_t most)
{
	const uint64_t x = next(state);

	return ((uint32_t)(x >> 8) % (x % 100 < 90 ? 160 : x % 100 < 99 ? 4096 : most));
}

static enum ring_result check_or_echo(uint64_t thread, uint64_t number, uint64_t *state)
{
	const bool call = next(state) % 4 == 0;
	struct header h = { thread, number, next(state) };
	struct ring_need need = { .op = call ? OP_ECHO : OP_CHECK, .call = call };
	uint64_t bytes = h.seed;
	struct ring_draft d;
	enum ring_result rv;

	need.size = (uint32_t)sizeof(h) + length(state, SING_SIZE_MAX - sizeof(h));
	if (call)
		need.room = need.size - (uint32_t)sizeof(h);
	else
		need.bulk = next(state) % 8 ? 0 : length(state, 400000);
	rv = ring_stage(&d, &need);
	if (rv != RING_OK)
		return (rv);
	memcpy(d.args, &h, sizeof(h));
	fill(&bytes, (unsigned char *)d.args + sizeof(h), need.size - sizeof(h));
	fill(&bytes, d.bulk, need.bulk);
	if (!call)
		return (ring_post(&d));

	unsigned char *sent = malloc(need.room + 1);

	memcpy(sent, (unsigned char *)d.args + sizeof(h), need.room);
	rv = ring_call(&d);
	if (rv == RING_OK) {
		CHECK(d.length == need.room && d.status == (int32_t)number);
		for (uint32_t i = 0; i < d.length; i++)
			CHECK(((unsigned char *)d.args)[i] == sent[need.room - 1 - i]);
		ring_done(&d);
	}
	free(sent);

	return (rv);
}

static enum ring_result say(uint32_t op, bool call, uint64_t value)
{
	struct ring_need need = { .op = op, .call = call, .size = sizeof(value) };
	struct ring_draft d;
	enum ring_result rv;

	errno = 77;
	rv = ring_stage(&d, &need);
	if (rv == RING_OK) {
		memcpy(d.args, &value, sizeof(value));
		rv = call ? ring_call(&d) : ring_post(&d);
		if (call && rv == RING_OK)
			ring_done(&d);
	}
	CHECK(errno == 77);

	return (rv);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t stamp;

static enum ring_result say_stamp(void)
{
	enum ring_result rv;

	pthread_mutex_lock(&lock);
	rv = say(OP_STAMP, false, ++stamp);
	pthread_mutex_unlock(&lock);

	return (rv);
}

static _Atomic bool enough;

/* Each thread has its own numbers; now and then one that is everybody's. */
static void *burst(void *arg)
{
	const uint64_t thread = (uint64_t)(uintptr_t)arg;
	uint64_t state = seed + thread * 7919;
	enum ring_result rv = RING_OK;

	for (uint64_t i = 0; (!messages || i < messages) && rv == RING_OK && !atomic_load(&enough); i++) {
		rv = check_or_echo(thread, i, &state);
		if (rv == RING_OK && next(&state) % 8 == 0)
			rv = say_stamp();
	}

	return ((void *)(uintptr_t)rv);
}

/* A thread for each message, one after the other, more than there are lanes. */
static void *brief(void *arg)
{
	return ((void *)(uintptr_t)say(OP_SINK, (uintptr_t)arg % 2, (uintptr_t)arg));
}

static void *counted(void *arg)
{
	const uint64_t thread = (uint64_t)(uintptr_t)arg;
	enum ring_result rv = RING_OK;

	for (uint64_t i = 0; (!messages || i < messages) && rv == RING_OK; i++) {
		const struct sing_count count[2] = { { .key = 1000 + thread, .n = 1 }, { .key = 7, .n = 2 } };
		struct ring_need need = { .op = OP_COUNT, .size = sizeof(i), .counts = 2, .count = count };
		struct ring_draft d;

		rv = ring_stage(&d, &need);
		if (rv == RING_OK) {
			memcpy(d.args, &i, sizeof(i));
			rv = ring_post(&d);
		}
	}

	return ((void *)(uintptr_t)rv);
}

/* One thread that is not counted, and others that are. */
static void *mixed(void *arg)
{
	return (arg ? counted(arg) : burst(arg));
}

/* One call that waits, and others for room. */
static void *stuck(void *arg)
{
	enum ring_result rv = arg ? RING_OK : say(OP_HOLD, true, 0);

	while (rv == RING_OK)
		rv = say(OP_SINK, false, 0);

	return ((void *)(uintptr_t)rv);
}

/* Calls whose answers come in any order. */
static void *late(void *arg)
{
	for (uint32_t i = 0; i < messages; i++) {
		const struct ring_need need = { .op = OP_HOLD, .call = true, .size = 8, .room = 8 };
		const uint64_t value = (uintptr_t)arg << 20 | i;
		struct ring_draft d;

		CHECK(ring_stage(&d, &need) == RING_OK);
		memcpy(d.args, &value, 8);
		CHECK(ring_call(&d) == RING_OK);
		CHECK(d.status == (int32_t)value && d.length == 8 && !memcmp(d.args, &value, 8));
		ring_done(&d);
		CHECK(say(OP_SINK, false, i) == RING_OK);
	}

	return (NULL);
}

static pthread_barrier_t all;

/* Several calls at a time, as many as there are lanes for. */
static void *several(void *arg)
{
	const struct ring_need need = { .op = OP_SINK, .call = true, .size = 8 };
	struct ring_draft d[4];
	unsigned int asked = 0, awaited = 0;

	(void)arg;
	pthread_barrier_wait(&all);
	while (awaited < messages) {
		enum ring_result rv = RING_BUSY;

		if (asked < messages && asked - awaited < 4)
			rv = ring_stage(&d[asked % 4], &need);
		if (rv == RING_OK) {
			memset(d[asked % 4].args, 0, 8);
			CHECK(ring_ask(&d[asked++ % 4]) == RING_OK);
		} else {
			CHECK(rv == RING_BUSY && asked > awaited);
			CHECK(ring_await(&d[awaited % 4]) == RING_OK);
			ring_done(&d[awaited++ % 4]);
		}
	}

	return (NULL);
}

/* Nonsense, where it hurts: near the heads, in the beginnings of lanes, anywhere. */
static void *scribbler(void *arg)
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

/* In a handler: a message in the middle of another. */
static _Atomic uint64_t interrupted;

static void interrupt(int signal)
{
	(void)signal;
	const uint64_t n = atomic_fetch_add(&interrupted, 1);

	CHECK(say(OP_SINK, n % 2, n) == RING_OK);
}

/* The handlers' stack is above the frames that they interrupt. */
static void *burst_aside(void *arg)
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

static void *interrupter(void *arg)
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

static void jump(int signal)
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
	CHECK(stack[0]); /* nobody answers in time */
}

/* With a second thread: always further down than the first time. */
static void abandon(void)
{
	for (volatile unsigned int i = 0; i < messages; i++) {
		CHECK(say(OP_SINK, true, i) == RING_OK);
		if (!sigsetjmp(back, 1))
			begin_hold(i % 2, threads > 1 && i ? 5 : 0);
	}
}

/* Cancelled anywhere. */
static void *victim(void *arg)
{
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	for (uint64_t i = 0;; i++)
		if (say(OP_SINK, i % 2, (uintptr_t)arg) != RING_OK)
			return (NULL);
}

static void *leaver(void *arg)
{
	CHECK(say(OP_SINK, false, (uintptr_t)arg) == RING_OK);
	syscall(SYS_exit, 0);

	return (NULL);
}

static void forks(void)
{
	for (unsigned int i = 0; i < messages; i++) {
		int status;
		pid_t pid;

		CHECK(say(OP_SINK, false, i) == RING_OK);
		/* By the bare system call, too: no handler of pthread_atfork runs then. */
		pid = i % 2 ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
		if (!pid) {
			uint32_t fault = ring_fault();
			bool leased = ring_lease(0, 1);
			_exit(say(OP_SINK, true, i) == RING_FORKED && !fault && !leased && !ring_mark(1) ? 0 : 1);
		}
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	}
}

static bool is_alive(void)
{
	return (false);
}

static int run(void *(*what)(void *))
{
	pthread_t t[256];
	int worst = 0;

	CHECK(threads <= 256);
	for (unsigned int i = 0; i < threads; i++)
		CHECK(!pthread_create(&t[i], NULL, what, (void *)(uintptr_t)i));
	for (unsigned int i = 0; i < threads; i++) {
		void *rv;

		CHECK(!pthread_join(t[i], &rv));
		if ((int)(uintptr_t)rv > worst)
			worst = (int)(uintptr_t)rv;
	}

	return (worst);
}

int main(int argc, char **argv)
{
	int rv = 0;

	CHECK(argc == 5);
	threads = (unsigned int)atoi(argv[2]);
	messages = (unsigned int)atoi(argv[3]);
	seed = strtoull(argv[4], NULL, 10);
	if (!strcmp(argv[1], "attach"))
		return (ring_attach(3, NULL));
	CHECK(say(OP_SINK, false, 0) == RING_NONE);
	raw_ring = mmap(NULL, SING_RING_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0);
	CHECK(ring_attach(3, strcmp(argv[1], "orphan") ? NULL : is_alive) == 0);
	CHECK(ring_attach(3, NULL) == EALREADY);
	close(3);
	if (!strcmp(argv[1], "burst")) {
		rv = run(burst);
	} else if (!strcmp(argv[1], "mixed")) {
		rv = run(mixed);
	} else if (!strcmp(argv[1], "several")) {
		CHECK(!pthread_barrier_init(&all, NULL, threads));
		rv = run(several);
	} else if (!strcmp(argv[1], "late")) {
		rv = run(late);
	} else if (!strcmp(argv[1], "stuck")) {
		rv = run(stuck);
	} else if (!strcmp(argv[1], "scribble")) {
		pthread_t t;

		CHECK(!pthread_create(&t, NULL, scribbler, NULL));
		run(burst);
	} else if (!strcmp(argv[1], "count")) {
		rv = run(counted);
	} else if (!strcmp(argv[1], "brief")) {
		for (unsigned int i = 0; i < messages; i++)
			CHECK(!run(brief));
	} else if (!strcmp(argv[1], "interrupt") || !strcmp(argv[1], "aside")) {
		const bool aside = argv[1][0] == 'a';
		pthread_t extra;
		struct sigaction sa = { .sa_handler = interrupt, .sa_flags = aside ? SA_ONSTACK : 0 };

		sigaction(SIGUSR1, &sa, NULL);
		pthread_t t[256];
		for (unsigned int i = 0; i < threads; i++)
			CHECK(!pthread_create(&t[i], NULL, aside ? burst_aside : burst, (void *)(uintptr_t)i));
		CHECK(!pthread_create(&extra, NULL, interrupter, t));
		while (atomic_load(&interrupted) < 200)
			sched_yield();
		atomic_store(&enough, true);
		CHECK(!pthread_join(extra, NULL));
		for (unsigned int i = 0; i < threads; i++)
			CHECK(!pthread_join(t[i], NULL));
	} else if (!strcmp(argv[1], "abandon")) {
		struct sigaction sa = { .sa_handler = jump };

		sigaction(SIGUSR2, &sa, NULL);
		abandon();
	} else if (!strcmp(argv[1], "cancel")) {
		for (unsigned int i = 0; i < messages; i++) {
			pthread_t t;

			CHECK(!pthread_create(&t, NULL, victim, (void *)(uintptr_t)i));
			for (uint64_t n = next(&seed) % 2000; n; n--)
				__asm__ volatile("");
			CHECK(!pthread_cancel(t));
			CHECK(!pthread_join(t, NULL));
			CHECK(say(OP_SINK, true, i) == RING_OK);
		}
	} else if (!strcmp(argv[1], "leave")) {
		for (unsigned int i = 0; i < messages; i++) {
			pthread_t t;

			CHECK(!pthread_create(&t, NULL, leaver, (void *)(uintptr_t)i));
			CHECK(!pthread_join(t, NULL));
		}
	} else if (!strcmp(argv[1], "orphan")) {
		rv = (int)say(OP_PING, true, 0);
		CHECK(say(OP_PING, true, 0) == RING_CLOSED);
	} else if (!strcmp(argv[1], "fork")) {
		pthread_t t[256];

		CHECK(threads <= 256);
		for (unsigned int i = 1; i < threads; i++)
			CHECK(!pthread_create(&t[i], NULL, burst, (void *)(uintptr_t)(i - 1)));
		forks();
		for (unsigned int i = 1; i < threads; i++)
			CHECK(!pthread_join(t[i], NULL));
	} else if (!strcmp(argv[1], "exec")) {
		pthread_t t;

		CHECK(!pthread_create(&t, NULL, burst, NULL));
		CHECK(say(OP_PING, true, 0) == RING_OK);
		execl("/bin/sleep", "sleep", "1000", (char *)NULL);
		abort();
	} else if (!strcmp(argv[1], "mark")) {
		while (!ring_fault())
			CHECK(say(OP_PING, true, 0) == RING_OK);
		CHECK(ring_fault() == 719);
		for (unsigned int i = 0; i < SING_MARKS; i++)
			CHECK(ring_mark(i) == (uint64_t)i * i << 20);
		CHECK(ring_mark(SING_MARKS) == 0);
	} else if (!strcmp(argv[1], "lease")) {
		uint64_t got = 0;

		while (ring_lease(3, 16))
			got += 16;
		ring_unlease(3, 32);
		CHECK(!ring_lease(99, 0));
		CHECK(say(OP_STAMP, true, got) == RING_OK);
	} else {
		CHECK(!"known");
	}

	return (rv);
}
