// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * load WHAT THREADS MESSAGES SEED: a process that uses the ring of descriptor 3, as the tests of
 * package wire expect. The tests check the messages.
 */
#define _GNU_SOURCE
#include "load.h"

#include <sys/mman.h>
#include <unistd.h>

uint64_t seed;
char *raw_ring;
unsigned int threads, messages;

static bool is_alive(void)
{
	return (false);
}

static int run_threads(void *(*what)(void *))
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
	alarm(300); /* the process does not outlive a test that died */
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
		rv = run_threads(burst);
	} else if (!strcmp(argv[1], "mixed")) {
		rv = run_threads(mixed);
	} else if (!strcmp(argv[1], "several")) {
		CHECK(!pthread_barrier_init(&all, NULL, threads));
		rv = run_threads(several);
	} else if (!strcmp(argv[1], "together")) {
		CHECK(!pthread_barrier_init(&all, NULL, threads));
		rv = run_threads(together);
	} else if (!strcmp(argv[1], "late")) {
		rv = run_threads(late);
	} else if (!strcmp(argv[1], "stuck")) {
		rv = run_threads(stuck);
	} else if (!strcmp(argv[1], "scribble")) {
		pthread_t t;

		CHECK(!pthread_create(&t, NULL, scribbler, NULL));
		run_threads(burst);
	} else if (!strcmp(argv[1], "count")) {
		rv = run_threads(counted);
	} else if (!strcmp(argv[1], "brief")) {
		for (unsigned int i = 0; i < messages; i++)
			CHECK(!run_threads(brief));
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
	} else if (!strcmp(argv[1], "fault")) {
		while (!ring_fault())
			CHECK(say(OP_PING, true, 0) == RING_OK);
		CHECK(ring_fault() == 719);
	} else {
		CHECK(!"known");
	}

	return (rv);
}
