// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * bench WHAT BYTES ROUNDS: the costs of the process's end of the ring. Prints the figures of the
 * rounds, the best first, as "name value", because the machine may be busy with other work.
 *
 *	post   nanoseconds for each of 4096 posts with BYTES of arguments, into an empty ring
 *	call   nanoseconds for a call with BYTES of arguments and of answer, of 2000 in a row
 *	sleep  the same when both ends have fallen asleep before each
 *	to     copying 64 MiB to the server, in bulks of BYTES: bytes per nanosecond
 *	from   copying 64 MiB from the server, in answers of BYTES
 *	read   copying 64 MiB to the server, which reads BYTES at a time from this process
 *	write  the other way
 *
 * and for those that copy, "memcpy value": the same, here, in between.
 */
#define _GNU_SOURCE
#include "../../shim/ring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { BURST = 4096, CALLS = 2000, COPY = 64 << 20 };
#ifndef DEPTH
#define DEPTH 3
#endif

/* Operations that the other end knows. */
enum { OP_NOTHING = 1, OP_TO = 2, OP_FROM = 3, OP_READ = 4, OP_WRITE = 5 };

static char *memory, *other;

static void check_ring(enum ring_result rv)
{
	if (rv != RING_OK) {
		fprintf(stderr, "the ring says %d\n", rv);
		exit(1);
	}
}

static double nanoseconds_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return ((double)t.tv_sec * 1e9 + (double)t.tv_nsec);
}

static void call_once(uint32_t size)
{
	const struct ring_need need = { .op = OP_NOTHING, .call = true, .size = size, .room = size };
	struct ring_draft d;

	check_ring(ring_stage(&d, &need));
	memset(d.args, 1, size);
	check_ring(ring_call(&d));
	ring_done(&d);
}

static void post_once(uint32_t size)
{
	const struct ring_need need = { .op = OP_NOTHING, .size = size };
	struct ring_draft d;

	check_ring(ring_stage(&d, &need));
	memset(d.args, 1, size);
	check_ring(ring_post(&d));
}

static void copy_to(const char *from, uint32_t n)
{
	const struct ring_need need = { .op = OP_TO, .bulk = n };
	struct ring_draft d;

	check_ring(ring_stage(&d, &need));
	memcpy(d.bulk, from, n);
	check_ring(ring_post(&d));
}

/* Several calls at a time, as memory is to be copied. */
static void copy_from(char *to, uint32_t n)
{
	const struct ring_need need = { .op = OP_FROM, .call = true, .room = n };
	struct ring_draft d[DEPTH];

	for (uint32_t i = 0; i < COPY / n + DEPTH - 1; i++) {
		if (i < COPY / n) {
			check_ring(ring_stage(&d[i % DEPTH], &need));
			check_ring(ring_ask(&d[i % DEPTH]));
		}
		if (i >= DEPTH - 1) {
			const uint32_t first = i - (DEPTH - 1);

			check_ring(ring_await(&d[first % DEPTH]));
			memcpy(to + (size_t)first * n, d[first % DEPTH].args, d[first % DEPTH].length);
			ring_done(&d[first % DEPTH]);
		}
	}
}

/* Have the server copy from or to this process. */
static void copy_there(uint32_t op, const char *at, uint64_t n)
{
	const uint64_t args[2] = { (uintptr_t)at, n };
	const struct ring_need need = { .op = op, .call = true, .size = sizeof(args) };
	struct ring_draft d;

	check_ring(ring_stage(&d, &need));
	memcpy(d.args, args, sizeof(args));
	check_ring(ring_call(&d));
	ring_done(&d);
}

static double copy_here(uint32_t n)
{
	const double since = nanoseconds_now();

	for (uint32_t at = 0; n && at + n <= COPY; at += n)
		memcpy(other + at, memory + at, n);

	return (COPY / (nanoseconds_now() - since));
}

static double measure_calls(const char *what, uint32_t n)
{
	double since;

	call_once(8);
	since = nanoseconds_now();
	if (!strcmp(what, "post")) {
		for (int i = 0; i < BURST; i++)
			post_once(n);
		since = (nanoseconds_now() - since) / BURST;
		call_once(8);
		return (since);
	}
	if (!strcmp(what, "call")) {
		for (int i = 0; i < CALLS; i++)
			call_once(n);
		return ((nanoseconds_now() - since) / CALLS);
	}
	if (!strcmp(what, "sleep")) {
		usleep(3000);
		since = nanoseconds_now();
		call_once(n);
		return (nanoseconds_now() - since);
	}
	if (!strcmp(what, "from")) {
		copy_from(memory, n);
		return (COPY / (nanoseconds_now() - since));
	}
	for (uint32_t at = 0; at + n <= COPY; at += n) {
		if (!strcmp(what, "to"))
			copy_to(memory + at, n);
		else
			copy_there(what[0] == 'r' ? OP_READ : OP_WRITE, memory + at, n);
	}
	if (!strcmp(what, "to"))
		call_once(8);

	return (COPY / (nanoseconds_now() - since));
}

static int compare_numbers(const void *a, const void *b)
{
	return ((*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b));
}

int main(int argc, char **argv)
{
	const int rounds = argc == 4 ? atoi(argv[3]) : 0;
	double *figures = malloc((size_t)rounds * sizeof(double));
	double here = 0;
	bool most;

	alarm(300); /* the process does not outlive a test that died */
	if (rounds < 1 || ring_attach(3, NULL))
		return (1);
	memory = mmap(NULL, 2UL * COPY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	other = memory + COPY;
	memset(memory, 1, 2UL * COPY);
	for (int i = 0; i < rounds; i++) {
		figures[i] = measure_calls(argv[1], (uint32_t)atoi(argv[2]));
		const double as_memcpy = copy_here((uint32_t)atoi(argv[2]));
		here = as_memcpy > here ? as_memcpy : here;
	}
	qsort(figures, (size_t)rounds, sizeof(double), compare_numbers);
	most = strchr("tfrw", argv[1][0]);
	printf("best %f\nmedian %f\nmemcpy %f\n", figures[most ? rounds - 1 : 0], figures[rounds / 2], here);

	return (0);
}
