// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "shares.h"

#include <stdlib.h>
#include <string.h>

#include "data.h"
#include "layers.h"

/* The number of elements in all ranks' shares together. */
static unsigned whole_of(const struct shares *s, const struct unit *u)
{
	return (u->per * (unsigned)s->r->ranks);
}

/*
 * Allocates memory for a whole unit in the stream's order: it can be used until it is freed in the stream. The elements
 * behind the unit are zero.
 */
static CUdeviceptr allocate_whole(const struct shares *s, const struct unit *u)
{
	CUdeviceptr p;
	unsigned whole = whole_of(s, u);

	CU(cuMemAllocAsync(&p, 4 * (size_t)whole, s->r->stream));
	if (whole > u->n)
		CU(cuMemsetD32Async(p + 4 * (CUdeviceptr)u->n, 0, whole - u->n, s->r->stream));
	return (p);
}

/* Points the model's parts to the unit's parameters and gradients. */
static void point_to_unit(struct shares *s, const struct unit *u)
{
	s->m->p = u->parameters - 4 * (CUdeviceptr)u->at;
	s->m->g = u->gradients - 4 * (CUdeviceptr)u->at;
}

/* Every rank computes the first parameters of all, and has a copy of its share. */
static void begin_unit(struct shares *s, unsigned i, uint32_t seed)
{
	struct unit *u = &s->unit[i];
	size_t share = 4 * (size_t)u->per;

	u->p = floats(u->per);
	u->g = floats(u->per);
	u->m = floats(u->per);
	u->v = floats(u->per);
	u->parameters = allocate_whole(s, u);
	point_to_unit(s, u);
	for (unsigned k = u->first; k < u->end; ++k)
		begin_part(s->r, s->m, k, seed);
	CU(cuMemcpyDtoDAsync(u->p, u->parameters + share * (unsigned)s->r->rank, share, s->r->stream));
	drop_unit(s, i);
}

void make_shares(struct shares *s, struct rank *r, struct model *m, int stage, const unsigned *first, unsigned units, uint32_t seed)
{
	*s = (struct shares){ .r = r, .m = m, .stage = stage, .units = units };
	if (units > MAX_UNITS)
		fail("too many units");
	m->b1t = m->b2t = 1;
	m->loss = floats(1);
	m->host = malloc(4 * (size_t)m->n);
	for (unsigned i = 0; i < units; ++i) {
		struct unit *u = &s->unit[i];

		u->first = first[i];
		u->end = i + 1 < units ? first[i + 1] : m->parts;
		u->at = m->at[u->first];
		u->n = (u->end < m->parts ? m->at[u->end] : m->n) - u->at;
		u->per = (u->n + (unsigned)r->ranks - 1) / (unsigned)r->ranks;
		begin_unit(s, i, seed);
	}
}

void free_shares(struct shares *s)
{
	for (unsigned i = 0; i < s->units; ++i) {
		struct unit *u = &s->unit[i];

		if (u->parameters != 0)
			CU(cuMemFreeAsync(u->parameters, s->r->stream));
		if (u->gradients != 0)
			CU(cuMemFreeAsync(u->gradients, s->r->stream));
		CU(cuMemFree(u->p));
		CU(cuMemFree(u->g));
		CU(cuMemFree(u->m));
		CU(cuMemFree(u->v));
	}
	CU(cuMemFree(s->m->loss));
	free(s->m->host);
}

void gather_unit(struct shares *s, unsigned i)
{
	struct unit *u = &s->unit[i];

	if (u->parameters == 0)
		u->parameters = allocate_whole(s, u);
	point_to_unit(s, u);
	NCCL(AllGather((void *)u->p, (void *)u->parameters, u->per, ncclFloat, s->r->world, s->r->stream));
}

void drop_unit(struct shares *s, unsigned i)
{
	struct unit *u = &s->unit[i];

	if (s->stage == 1)
		return;
	CU(cuMemFreeAsync(u->parameters, s->r->stream));
	u->parameters = 0;
}

void take_gradients(struct shares *s, unsigned i)
{
	struct unit *u = &s->unit[i];

	if (u->gradients == 0)
		u->gradients = allocate_whole(s, u);
	point_to_unit(s, u);
}

void give_gradients(struct shares *s, unsigned i)
{
	struct unit *u = &s->unit[i];

	NCCL(ReduceScatter((void *)u->gradients, (void *)u->g, u->per, ncclFloat, ncclSum, s->r->world, s->r->stream));
	if (s->stage == 1)
		return;
	CU(cuMemFreeAsync(u->gradients, s->r->stream));
	u->gradients = 0;
}

void reduce_loss(struct shares *s)
{
	NCCL(AllReduce((void *)s->m->loss, (void *)s->m->loss, 1, ncclFloat, ncclSum, s->r->world, s->r->stream));
}

void improve_shares(struct shares *s, float rate, float share)
{
	begin_improvement(s->m);
	for (unsigned i = 0; i < s->units; ++i) {
		struct unit *u = &s->unit[i];

		improve_numbers(s->r, s->m, (struct numbers){ u->per, u->p, u->g, u->m, u->v }, rate, share);
	}
}

uint64_t agreed_hash_of_shares(struct shares *s)
{
	for (unsigned i = 0; i < s->units; ++i) {
		struct unit *u = &s->unit[i];

		gather_unit(s, i);
		CU(cuMemcpyDtoHAsync(s->m->host + u->at, u->parameters, 4 * (size_t)u->n, s->r->stream));
		drop_unit(s, i);
	}
	CU(cuStreamSynchronize(s->r->stream));
	return (agreed(s->r, hash_bytes(HASH_BEGIN, s->m->host, 4 * (size_t)s->m->n)));
}
