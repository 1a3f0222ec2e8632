// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "fake.h"

#include <unistd.h>

/* The suite's kernels. The device must have access to the memory that they read and write. */
static unsigned int *word_at(struct op *o, CUcontext c, uint64_t at, int *fault)
{
	CUmodule m = o->function->module;

	if (at % 4)
		*fault = MISALIGNED;
	else if (!(at >= (uint64_t)m->bytes && at < (uint64_t)m->bytes + m->nbytes) && !device_reaches(c->device, at, 4))
		*fault = ILLEGAL_ADDRESS;
	return ((unsigned int *)at);
}

static uint64_t read_address(struct op *o, int i)
{
	uint64_t v;

	memcpy(&v, o->params + o->function->offsets[i], sizeof(v));
	return (v);
}

static unsigned int read_value(struct op *o, int i)
{
	unsigned int v;

	memcpy(&v, o->params + o->function->offsets[i], sizeof(v));
	return (v);
}

static unsigned int *find_variable(struct op *o, const char *name)
{
	CUmodule m = o->function->module;

	for (int i = 0; i < m->nglobals; ++i)
		if (!strcmp(m->globals[i].name, name))
			return ((unsigned int *)(m->bytes + m->globals[i].at));
	abort();
}

static int k_add(struct op *o, CUcontext c)
{
	size_t n = (size_t)o->grid[0] * o->grid[1] * o->grid[2] * o->block[0] * o->block[1] * o->block[2];
	int fault = 0;

	for (size_t i = 0; i < n; i += 512) { /* a look at each page will do */
		word_at(o, c, read_address(o, 0) + 4 * i, &fault);
		if (fault)
			return (fault);
	}
	for (size_t i = 0; i < n; ++i)
		((unsigned int *)read_address(o, 0))[i] += read_value(o, 1);
	return (0);
}

static int k_poke(struct op *o, CUcontext c)
{
	int fault = 0;
	unsigned int *p = word_at(o, c, read_address(o, 0), &fault);

	if (!fault)
		*p = read_value(o, 1);
	return (fault);
}

static int k_bump(struct op *o, CUcontext c)
{
	int fault = 0;
	unsigned int *p = word_at(o, c, read_address(o, 0), &fault), *counter = find_variable(o, "counter");

	if (!fault)
		*p = (*counter)++;
	return (fault);
}

static int k_ask(struct op *o, CUcontext c)
{
	int fault = 0;
	unsigned int *p = word_at(o, c, read_address(o, 0), &fault);

	if (!fault)
		*p = *find_variable(o, "answer");
	return (fault);
}

static int k_spin(struct op *o, CUcontext c)
{
	int fault = 0;
	volatile unsigned int *p = word_at(o, c, read_address(o, 0), &fault);

	while (!fault && !*p && !__atomic_load_n(&c->dead, __ATOMIC_SEQ_CST))
		usleep(50);
	return (fault);
}

static int k_stop(struct op *o, CUcontext c)
{
	(void)o;
	(void)c;
	return (LAUNCH_FAILED);
}

static int k_claim(struct op *o, CUcontext c)
{
	(void)o;
	(void)c;
	return (ASSERT_FAILED);
}

static int k_none(struct op *o, CUcontext c)
{
	(void)o;
	(void)c;
	return (0);
}

/* a*b + c, modulo 2^61-1; a and b are less than that. */
static uint64_t times(uint64_t a, uint64_t b, uint64_t c)
{
	const uint64_t prime = (1ull << 61) - 1;
	unsigned __int128 x = (unsigned __int128)a * b + c;
	uint64_t y = (uint64_t)(x >> 61) + ((uint64_t)x & prime);

	return (y >= prime ? y - prime : y);
}

/* A piece of 64 KiB of each block of threads: see block_sums.go. */
static int k_sum_pieces(struct op *o, CUcontext c)
{
	enum { PIECE = 64 << 10, THREADS = 128 };
	const uint64_t *keys = (const uint64_t *)find_variable(o, "keys");
	uint64_t from = read_address(o, 0), *to = (uint64_t *)read_address(o, 1);
	int fault = 0;

	for (unsigned int piece = 0; piece < o->grid[0]; ++piece, from += PIECE, to += 2) {
		word_at(o, c, from, &fault);
		if (fault)
			return (fault);
		to[0] = to[1] = 0;
		for (unsigned int thread = 0; thread < THREADS; ++thread) {
			uint64_t sums[2] = { 0 };

			for (unsigned int at = 16 * thread; at < PIECE; at += 16 * THREADS)
				for (int word = 0; word < 4; ++word)
					for (int j = 0; j < 2; ++j)
						sums[j] = times(sums[j], keys[j], ((const unsigned int *)(from + at))[word]);
			for (int j = 0; j < 2; ++j)
				to[j] = times(sums[j], keys[2 + 2 * thread + j], to[j]);
		}
	}
	return (0);
}

static const struct { const char *name; int (*run)(struct op *, CUcontext); } kernels[] = {
	{ "add", k_add }, { "poke", k_poke }, { "bump", k_bump }, { "ask", k_ask }, { "spin", k_spin }, { "stop", k_stop }, { "claim", k_claim },
	{ "sum_pieces", k_sum_pieces },
};

int (*kernel_named(const char *name))(struct op *, CUcontext)
{
	for (size_t i = 0; i < sizeof(kernels) / sizeof(*kernels); ++i)
		if (!strcmp(name, kernels[i].name))
			return (kernels[i].run);
	return (k_none);
}
