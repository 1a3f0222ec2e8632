// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * A perceptron of three layers learns the classes that a fixed random matrix gives to random points. Each rank has
 * its own points. With --zero, the model is divided over the ranks, with the same results.
 */
#include <stdio.h>

#include "data.h"
#include "layers.h"
#include "model.h"
#include "shares.h"

enum { BATCH = 32, IN = 64, HIDDEN = 96, CLASSES = 10, LAYERS = 3 };

static const unsigned widths[LAYERS + 1] = { IN, HIDDEN, HIDDEN, CLASSES };

struct mlp {
	struct rank *r;
	struct model m;
	unsigned w[LAYERS], b[LAYERS];
	CUdeviceptr x[LAYERS + 1]; /* x[0] is the input, x[i + 1] the output of layer i */
	CUdeviceptr h[LAYERS];     /* before the activation; the last is the logits */
	CUdeviceptr dh, dx, each, target;
	struct shares shares; /* with --zero; in stage 3, each layer is a unit */
	unsigned batch;   /* number in the step, from 0: gradients of later batches are added to earlier ones */
	CUdeviceptr loss; /* of the batch */
	CUdeviceptr sums; /* with --statistics, running sums of the layers' outputs, different on each rank */
};

/*
 * Makes the model's buffers, or this rank's share of them. The extra parameters, which no layer uses, are a unit of
 * their own.
 */
static void make_parameters(struct mlp *p)
{
	struct rank *r = p->r;
	unsigned first[LAYERS + 1], units = r->o->zero == 1 ? 1 : LAYERS + (r->o->extra > 0);

	for (unsigned i = 0; i < units; ++i)
		first[i] = i < LAYERS ? p->w[i] : p->m.parts - 1;
	if (r->o->zero == 0)
		make_model(r, &p->m, r->o->seed * 1000);
	else
		make_shares(&p->shares, r, &p->m, r->o->zero, first, units, r->o->seed * 1000);
}

static void make_mlp(struct mlp *p, struct rank *r)
{
	*p = (struct mlp){ .r = r };
	for (int i = 0; i < LAYERS; ++i) {
		p->w[i] = add_part(&p->m, widths[i] * widths[i + 1], i == 0 ? 0.2f : 0.15f, 0);
		p->b[i] = add_part(&p->m, widths[i + 1], 0, 0);
	}
	if (r->o->extra > 0)
		add_part(&p->m, r->o->extra, 1, 0);
	make_parameters(p);
	for (int i = 0; i < LAYERS; ++i) {
		p->x[i] = floats(BATCH * widths[i]);
		p->h[i] = floats(BATCH * widths[i + 1]);
	}
	p->dh = floats(BATCH * HIDDEN);
	p->dx = floats(BATCH * HIDDEN);
	p->each = floats(BATCH);
	p->target = floats(BATCH);
	p->loss = r->o->accumulate > 1 ? floats(1) : p->m.loss;
	if (r->o->statistics)
		p->sums = floats(LAYERS * HIDDEN);
}

static struct linear linear_of(const struct mlp *p, int i)
{
	return ((struct linear){
		.rows = BATCH, .in = widths[i], .out = widths[i + 1], .x = p->x[i], .w = part(&p->m, p->w[i]), .b = part(&p->m, p->b[i]), .y = p->h[i],
	});
}

/* Adds a layer's output to the running sums, as batch normalisation does for its means. */
static void add_to_sums(struct mlp *p, int i)
{
	CUdeviceptr sums = p->sums + 4 * (CUdeviceptr)i * HIDDEN, h = p->h[i];
	unsigned rows = BATCH, columns = widths[i + 1];
	float keep = 0.9f;

	over(p->r, K_sum_rows, columns, (void *[]){ &sums, &h, &rows, &columns, &keep });
}

/* Prints the sums of all ranks, in a line of rank 0. */
static void print_sums(struct mlp *p)
{
	float sums[LAYERS * HIDDEN];
	uint64_t all[p->r->ranks], h;

	CU(cuMemcpyDtoHAsync(sums, p->sums, sizeof(sums), p->r->stream));
	CU(cuStreamSynchronize(p->r->stream));
	h = hash_bytes(HASH_BEGIN, sums, sizeof(sums));
	gather_hashes(p->r, h, all);
	if (p->r->rank == 0)
		printf("statistics hash %016llx\n", (unsigned long long)hash_bytes(HASH_BEGIN, all, sizeof(all)));
}

/* Computes the loss of the loaded points, and the activations that its gradients need. */
static void run_forward(void *user)
{
	struct mlp *p = user;
	struct rank *r = p->r;

	if (r->o->zero == 1)
		gather_unit(&p->shares, 0);
	for (int i = 0; i < LAYERS; ++i) {
		struct linear l;

		if (r->o->zero == 3)
			gather_unit(&p->shares, (unsigned)i);
		l = linear_of(p, i);
		linear(r, &l);
		if (r->o->zero == 3)
			drop_unit(&p->shares, (unsigned)i);
		if (r->o->statistics)
			add_to_sums(p, i);
		if (i < LAYERS - 1)
			activate(r, K_relu, p->x[i + 1], p->h[i], BATCH * widths[i + 1]);
	}
	cross_entropy(r, p->loss, p->each, p->dh, p->h[LAYERS - 1], p->target, BATCH, CLASSES, 1);
	if (p->loss != p->m.loss)
		mix(r, p->m.loss, p->loss, 1, p->batch > 0, 1);
}

static void run_backward(void *user)
{
	struct mlp *p = user;
	struct rank *r = p->r;
	float keep = p->batch > 0;

	if (r->o->zero == 1)
		take_gradients(&p->shares, 0);
	for (int i = LAYERS - 1; i >= 0; --i) {
		struct linear l;

		if (r->o->zero == 3) {
			gather_unit(&p->shares, (unsigned)i);
			take_gradients(&p->shares, (unsigned)i);
		}
		l = linear_of(p, i);
		linear_gradient(r, &l, p->dh, i > 0 ? p->dx : 0, 0, gradient(&p->m, p->w[i]), gradient(&p->m, p->b[i]), keep);
		if (r->o->zero == 3) {
			give_gradients(&p->shares, (unsigned)i);
			drop_unit(&p->shares, (unsigned)i);
		}
		if (i > 0)
			activate_gradient(r, K_relu, p->dh, p->dx, p->h[i - 1], BATCH * widths[i]);
	}
}

/*
 * Two ranks of a batch each have the points of a rank with two batches, in the same order.
 * The class of a point is that of the largest of CLASSES sums of its coordinates, with signs drawn once.
 */
static void load_points(struct mlp *p, int step)
{
	static _Thread_local float x[BATCH * IN];
	static _Thread_local uint32_t target[BATCH];
	uint32_t seed = p->r->o->seed * 7919 + (uint32_t)(step * p->r->ranks + p->r->rank) * p->r->o->accumulate + p->batch;

	for (unsigned i = 0; i < BATCH; ++i) {
		float most = -1e9f;

		for (unsigned j = 0; j < IN; ++j)
			x[i * IN + j] = uniform(seed, i * IN + j);
		for (unsigned c = 0; c < CLASSES; ++c) {
			float sum = 0;

			for (unsigned j = 0; j < IN; ++j)
				sum += random_word(42, c * IN + j) & 1 ? x[i * IN + j] : -x[i * IN + j];
			if (sum > most) {
				most = sum;
				target[i] = c;
			}
		}
	}
	CU(cuMemcpyHtoDAsync(p->x[0], x, sizeof(x), p->r->stream));
	CU(cuMemcpyHtoDAsync(p->target, target, sizeof(target), p->r->stream));
}

/*
 * Ends a step: adds up all ranks' gradients and losses, and changes the parameters. Returns the parameters' hash if the
 * step is looked at; else all of the step is queued, and the result is 0.
 */
static uint64_t improve_parameters(struct mlp *p, float share, bool look)
{
	struct rank *r = p->r;

	if (r->o->zero == 0) {
		reduce_gradients(r, &p->m, r->world);
		improve(r, &p->m, 0.01f, share);
		return (look ? agreed_hash(r, &p->m) : 0);
	}
	if (r->o->zero == 1)
		give_gradients(&p->shares, 0);
	reduce_loss(&p->shares);
	improve_shares(&p->shares, 0.01f, share);
	return (agreed_hash_of_shares(&p->shares));
}

static void train_mlp(struct rank *r)
{
	struct mlp p;
	float batches = (float)((unsigned)r->ranks * r->o->accumulate);
	uint64_t hash;
	bool look, last = false;

	make_mlp(&p, r);
	if (r->o->gradients) {
		load_points(&p, 1);
		check_gradients(r, &p.m, run_forward, run_backward, &p);
		return;
	}
	for (int step = 1; !last; ++step) {
		for (p.batch = 0; p.batch < r->o->accumulate; ++p.batch) {
			load_points(&p, step);
			run_forward(&p);
			run_backward(&p);
		}
		look = step % r->o->every == 0;
		hash = improve_parameters(&p, 1.0f / batches, look);
		if (look)
			print_step(r, step, read_loss(r, &p.m) / batches, hash);
		last = is_last_step(r, step);
		wait_at_mark(r, step, last);
	}
	if (r->o->statistics)
		print_sums(&p);
	if (r->o->zero != 0)
		free_shares(&p.shares);
	else
		free_model(&p.m);
}

int main(int argc, char **argv)
{
	return (run_ranks(argc, argv, 20, train_mlp));
}
