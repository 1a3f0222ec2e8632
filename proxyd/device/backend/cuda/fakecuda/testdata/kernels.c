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

static const struct { const char *name; int (*run)(struct op *, CUcontext); } kernels[] = {
	{ "add", k_add }, { "poke", k_poke }, { "bump", k_bump }, { "ask", k_ask }, { "spin", k_spin }, { "stop", k_stop }, { "claim", k_claim },
};

int (*kernel_named(const char *name))(struct op *, CUcontext)
{
	for (size_t i = 0; i < sizeof(kernels) / sizeof(*kernels); ++i)
		if (!strcmp(name, kernels[i].name))
			return (kernels[i].run);
	return (k_none);
}
