// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "data.h"
#include "layers.h"

static const float b1 = 0.9f, b2 = 0.99f, eps = 1e-8f;

unsigned add_part(struct model *m, unsigned n, float scale, float shift)
{
	unsigned i = m->parts++;

	if (i >= MAX_PARTS)
		fail("too many parts");
	m->at[i] = m->n;
	m->size[i] = n;
	m->scale[i] = scale;
	m->shift[i] = shift;
	m->seed[i] = i;
	m->n += n;
	return (i);
}

void make_model(struct rank *r, struct model *m, uint32_t seed)
{
	m->p = floats(m->n);
	m->g = floats(m->n + 1);
	m->m = floats(m->n);
	m->v = floats(m->n);
	m->loss = m->g + 4 * (CUdeviceptr)m->n;
	m->b1t = m->b2t = 1;
	m->host = malloc(4 * (size_t)m->n);
	for (unsigned i = 0; i < m->parts; ++i)
		begin_part(r, m, i, seed);
}

void begin_part(struct rank *r, struct model *m, unsigned i, uint32_t seed)
{
	CUdeviceptr p = part(m, i);
	uint32_t own = seed + m->seed[i];

	over(r, K_fill_uniform, m->size[i], (void *[]){ &p, &m->size[i], &own, &m->scale[i], &m->shift[i] });
}

void free_model(struct model *m)
{
	CU(cuMemFree(m->p));
	CU(cuMemFree(m->g));
	CU(cuMemFree(m->m));
	CU(cuMemFree(m->v));
	free(m->host);
}

CUdeviceptr part(const struct model *m, unsigned i)
{
	return (m->p + 4 * (CUdeviceptr)m->at[i]);
}

CUdeviceptr gradient(const struct model *m, unsigned i)
{
	return (m->g + 4 * (CUdeviceptr)m->at[i]);
}

void begin_improvement(struct model *m)
{
	m->b1t *= b1;
	m->b2t *= b2;
}

void improve_numbers(struct rank *r, const struct model *m, struct numbers x, float rate, float share)
{
	float c1 = 1 / (1 - m->b1t), c2 = 1 / (1 - m->b2t), beta1 = b1, beta2 = b2, e = eps;

	over(r, K_adam, x.n, (void *[]){ &x.p, &x.g, &x.m, &x.v, &x.n, &rate, &beta1, &beta2, &e, &c1, &c2, &share });
}

void improve(struct rank *r, struct model *m, float rate, float share)
{
	begin_improvement(m);
	improve_numbers(r, m, (struct numbers){ m->n, m->p, m->g, m->m, m->v }, rate, share);
}

uint64_t hash_model(struct rank *r, struct model *m)
{
	CU(cuMemcpyDtoHAsync(m->host, m->p, 4 * (size_t)m->n, r->stream));
	CU(cuStreamSynchronize(r->stream));
	return (hash_bytes(HASH_BEGIN, m->host, 4 * (size_t)m->n));
}

float read_loss(struct rank *r, struct model *m)
{
	float loss;

	CU(cuMemcpyDtoHAsync(&loss, m->loss, sizeof(loss), r->stream));
	CU(cuStreamSynchronize(r->stream));
	return (loss);
}

void reduce_gradients(struct rank *r, struct model *m, ncclComm_t comm)
{
	if (comm != NULL)
		NCCL(AllReduce((void *)m->g, (void *)m->g, m->n + 1, ncclFloat, ncclSum, comm, r->stream));
}

uint64_t agreed(struct rank *r, uint64_t h)
{
	uint64_t all[r->ranks];

	gather_hashes(r, h, all);
	for (int i = 0; i < r->ranks; ++i)
		if (all[i] != h)
			fail("its parameters are not those of rank %d", i);
	return (h);
}

uint64_t agreed_hash(struct rank *r, struct model *m)
{
	return (agreed(r, hash_model(r, m)));
}

void check_gradients(struct rank *r, struct model *m, void (*forward)(void *), void (*backward)(void *), void *user)
{
	const float h = 1.0f / 256;
	float *g = malloc(4 * (size_t)m->n);

	forward(user);
	backward(user);
	CU(cuMemcpyDtoHAsync(g, m->g, 4 * (size_t)m->n, r->stream));
	CU(cuStreamSynchronize(r->stream));
	for (unsigned i = 0; i < m->parts; ++i) {
		double worst = 0;

		for (unsigned k = 0; k < 2; ++k) {
			unsigned at = m->at[i] + random_word(i, k) % m->size[i];
			float old, new, loss[2];
			double slope;

			CU(cuMemcpyDtoH(&old, m->p + 4 * (CUdeviceptr)at, 4));
			for (int side = 0; side < 2; ++side) {
				new = old + (side ? h : -h);
				CU(cuMemcpyHtoDAsync(m->p + 4 * (CUdeviceptr)at, &new, 4, r->stream));
				forward(user);
				loss[side] = read_loss(r, m);
			}
			CU(cuMemcpyHtoDAsync(m->p + 4 * (CUdeviceptr)at, &old, 4, r->stream));
			slope = ((double)loss[1] - loss[0]) / (2 * (double)h);
			worst = fmax(worst, fabs(slope - g[at]) / (0.01 + fabs(slope)));
		}
		printf("part %u: differs by %.4f at most\n", i, worst);
		if (!(worst < 0.1))
			fail("the gradient of part %u is wrong", i);
	}
	free(g);
}
