// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Two blocks of perceptrons on 2x2 ranks: the blocks are stages of a pipeline, and the width of each is divided over two ranks. With 8
 * ranks there are two such grids, each with its own data.
 *
 *	rank = 4 grid + 2 stage + side
 *
 *	side     a single communicator for both halves of a block: partial sums are added there, forward and backward
 *	pipe     one for both stages of a side: activations go up, gradients down, in groups of a send and a receive
 *	copies   one for all grids' ranks in the same place: gradients are added there
 *
 * A step is several small batches, a single forward and a single backward in turn:
 *
 *	stage 0  F0   F1 | F2 B0 … send and receive together …   B3
 *	stage 1     F0 B0 F1 B1 …
 */
#include <string.h>

#include "data.h"
#include "layers.h"
#include "model.h"

enum { GRID = 4, SMALL = 4, ROWS = 16, WIDTH = 32, WIDE = 128, HALF = WIDE / 2, CLASSES = 8 };

/* The activations of a small batch that its backward pass needs. */
struct small {
	CUdeviceptr x, n, mean, spread, up, act, y, logits, target;
};

struct grid {
	struct rank *r;
	struct model m;
	int stage, half;
	ncclComm_t side, pipe, copies; /* copies: NULL for a single grid */
	unsigned gain, shift, w_up, b_up, w_down, b_down, w, b;
	struct small small[SMALL];
	CUdeviceptr sum, dy, dact, dn, dlogits, each, loss;
};

static void make_model_of_stage(struct grid *g)
{
	struct model *m = &g->m;
	unsigned own = 100 * (unsigned)g->stage;

	g->gain = add_part(m, WIDTH, 0, 1);
	g->shift = add_part(m, WIDTH, 0, 0);
	g->w_up = add_part(m, WIDTH * HALF, 0.25f, 0);
	g->b_up = add_part(m, HALF, 0, 0);
	g->w_down = add_part(m, HALF * WIDTH, 0.12f, 0);
	g->b_down = add_part(m, WIDTH, 0, 0);
	/* The divided parameters begin differently on each side, all others are the same. */
	m->seed[g->w_up] += own + 1000 * (unsigned)g->half;
	m->seed[g->w_down] += own + 1000 * (unsigned)g->half;
	if (g->stage == 1) {
		g->w = add_part(m, WIDTH * CLASSES, 0.25f, 0);
		g->b = add_part(m, CLASSES, 0, 0);
	}
	make_model(g->r, m, g->r->o->seed * 10000);
}

static void make_grid(struct grid *g, struct rank *r)
{
	int place = r->rank % GRID;

	if (r->ranks % GRID != 0)
		fail("%d ranks are no grids of %d", r->ranks, GRID);
	memset(g, 0, sizeof(*g));
	g->r = r;
	g->stage = place / 2;
	g->half = place % 2;
	NCCL(CommSplit(r->world, r->rank / 2, g->half, &g->side, NULL));
	NCCL(CommSplit(r->world, r->rank / GRID * 2 + g->half, g->stage, &g->pipe, NULL));
	if (r->ranks > GRID)
		NCCL(CommSplit(r->world, place, r->rank / GRID, &g->copies, NULL));
	make_model_of_stage(g);
	for (int i = 0; i < SMALL; ++i) {
		struct small *s = &g->small[i];

		s->x = floats(ROWS * WIDTH);
		s->n = floats(ROWS * WIDTH);
		s->mean = floats(ROWS);
		s->spread = floats(ROWS);
		s->up = floats(ROWS * HALF);
		s->act = floats(ROWS * HALF);
		s->y = floats(ROWS * WIDTH);
		s->logits = floats(ROWS * CLASSES);
		s->target = floats(ROWS);
	}
	g->sum = floats(ROWS * WIDTH);
	g->dy = floats(ROWS * WIDTH);
	g->dact = floats(ROWS * HALF);
	g->dn = floats(ROWS * WIDTH);
	g->dlogits = floats(ROWS * CLASSES);
	g->each = floats(ROWS);
	g->loss = floats(1);
}

static struct norm norm_of(struct grid *g, struct small *s)
{
	return ((struct norm){
		.rows = ROWS, .columns = WIDTH, .x = s->x, .y = s->n, .gain = part(&g->m, g->gain), .shift = part(&g->m, g->shift),
		.mean = s->mean, .spread = s->spread,
	});
}

static struct linear linear_of(CUdeviceptr x, CUdeviceptr y, unsigned in, unsigned out, CUdeviceptr w, CUdeviceptr b)
{
	return ((struct linear){ .rows = ROWS, .in = in, .out = out, .x = x, .y = y, .w = w, .b = b });
}

/* Both sides' parts of a sum become the sum. */
static void add_sides(struct grid *g, CUdeviceptr x)
{
	NCCL(AllReduce((void *)x, (void *)x, ROWS * WIDTH, ncclFloat, ncclSum, g->side, g->r->stream));
}

static void run_forward(struct grid *g, int i)
{
	struct rank *r = g->r;
	struct model *m = &g->m;
	struct small *s = &g->small[i];
	struct norm n = norm_of(g, s);
	struct linear up = linear_of(s->n, s->up, WIDTH, HALF, part(m, g->w_up), part(m, g->b_up));
	struct linear down = linear_of(s->act, g->sum, HALF, WIDTH, part(m, g->w_down), 0);
	CUdeviceptr bias = part(m, g->b_down);
	unsigned count = ROWS * WIDTH, columns = WIDTH;

	normalise(r, &n);
	linear(r, &up);
	activate(r, K_gelu, s->act, s->up, ROWS * HALF);
	linear(r, &down);
	add_sides(g, g->sum);
	over(r, K_add_bias, count, (void *[]){ &g->sum, &bias, &count, &columns });
	sum_of(r, s->y, s->x, g->sum, count);
	if (g->stage == 1) {
		struct linear l = linear_of(s->y, s->logits, WIDTH, CLASSES, part(m, g->w), part(m, g->b));

		linear(r, &l);
	}
}

/* Turns dy from the gradient of y into that of x; the last stage computes the gradient of y itself. */
static void run_backward(struct grid *g, int i)
{
	struct rank *r = g->r;
	struct model *m = &g->m;
	struct small *s = &g->small[i];
	struct norm n = norm_of(g, s);
	struct linear up = linear_of(s->n, s->up, WIDTH, HALF, part(m, g->w_up), 0);
	struct linear down = linear_of(s->act, g->sum, HALF, WIDTH, part(m, g->w_down), 0);
	float keep = i == 0 ? 0 : 1; /* gradients of all small batches are added */

	if (g->stage == 1) {
		struct linear l = linear_of(s->y, s->logits, WIDTH, CLASSES, part(m, g->w), 0);

		cross_entropy(r, g->loss, g->each, g->dlogits, s->logits, s->target, ROWS, CLASSES, 1.0f / SMALL);
		mix(r, m->loss, g->loss, 1, keep, 1);
		linear_gradient(r, &l, g->dlogits, g->dy, 0, gradient(m, g->w), gradient(m, g->b), keep);
	}
	linear_gradient(r, &down, g->dy, g->dact, 0, gradient(m, g->w_down), gradient(m, g->b_down), keep);
	activate_gradient(r, K_gelu, g->dact, g->dact, s->up, ROWS * HALF);
	linear_gradient(r, &up, g->dact, g->dn, 0, gradient(m, g->w_up), gradient(m, g->b_up), keep);
	add_sides(g, g->dn);
	normalise_gradient(r, &n, g->dn, g->dy, 1, gradient(m, g->gain), gradient(m, g->shift), keep);
}

/* Sends to and receives from the other stage, in a group if both are asked for. */
static void exchange_stages(struct grid *g, CUdeviceptr send, CUdeviceptr receive)
{
	int peer = 1 - g->stage;

	NCCL(GroupStart());
	if (send != 0)
		NCCL(Send((void *)send, ROWS * WIDTH, ncclFloat, peer, g->pipe, g->r->stream));
	if (receive != 0)
		NCCL(Recv((void *)receive, ROWS * WIDTH, ncclFloat, peer, g->pipe, g->r->stream));
	NCCL(GroupEnd());
}

/*
 * Received gradients must not be overwritten before their use: dy holds both the received and the sent gradients, so
 * the order of these calls counts.
 */
static void first_stage(struct grid *g)
{
	for (int i = 0; i < SMALL; ++i) {
		run_forward(g, i);
		exchange_stages(g, g->small[i].y, i > 0 ? g->dy : 0);
		if (i > 0)
			run_backward(g, i - 1);
	}
	exchange_stages(g, 0, g->dy);
	run_backward(g, SMALL - 1);
}

static void last_stage(struct grid *g)
{
	exchange_stages(g, 0, g->small[0].x);
	for (int i = 0; i < SMALL; ++i) {
		run_forward(g, i);
		run_backward(g, i);
		exchange_stages(g, g->dy, i + 1 < SMALL ? g->small[i + 1].x : 0);
	}
}

/* The first stage needs the points, the last stage their classes. */
static void load_points(struct grid *g, int step)
{
	struct rank *r = g->r;
	float x[ROWS * WIDTH];
	uint32_t target[ROWS];

	for (unsigned k = 0; k < SMALL; ++k) {
		uint32_t seed = r->o->seed * 7919 + ((uint32_t)(step * (r->ranks / GRID) + r->rank / GRID) * SMALL + k);

		for (unsigned i = 0; i < ROWS; ++i) {
			float most = -1e9f;

			for (unsigned j = 0; j < WIDTH; ++j)
				x[i * WIDTH + j] = uniform(seed, i * WIDTH + j);
			for (unsigned c = 0; c < CLASSES; ++c) {
				float sum = 0;

				for (unsigned j = 0; j < WIDTH; ++j)
					sum += random_word(43, c * WIDTH + j) & 1 ? x[i * WIDTH + j] : -x[i * WIDTH + j];
				if (sum > most) {
					most = sum;
					target[i] = c;
				}
			}
		}
		if (g->stage == 0)
			CU(cuMemcpyHtoDAsync(g->small[k].x, x, sizeof(x), r->stream));
		else
			CU(cuMemcpyHtoDAsync(g->small[k].target, target, sizeof(target), r->stream));
	}
}

/* Prints a hash of all ranks' hashes, and the mean of the losses, which only the last stages have. */
static void report_step(struct grid *g, int step)
{
	struct rank *r = g->r;
	uint64_t hashes[r->ranks], losses[r->ranks];
	uint64_t bits = 0;
	float loss = read_loss(r, &g->m), sum = 0;

	memcpy(&bits, &loss, sizeof(loss));
	gather_hashes(r, bits, losses);
	gather_hashes(r, hash_model(r, &g->m), hashes);
	for (int i = 0; i < r->ranks; ++i) {
		if (hashes[i] != hashes[i % GRID])
			fail("the parameters of rank %d are not those of rank %d", i, i % GRID);
		if (i % GRID == 2) {
			memcpy(&loss, &losses[i], sizeof(loss));
			sum += loss;
		}
	}
	/* With copies, each loss is already the sum of all grids' losses. */
	sum /= (float)(r->ranks / GRID);
	if (g->copies != NULL)
		sum /= (float)(r->ranks / GRID);
	print_step(r, step, sum, hash_bytes(HASH_BEGIN, hashes, sizeof(hashes)));
}

static void train_grid(struct rank *r)
{
	struct grid g;

	make_grid(&g, r);
	for (int step = 1; r->o->steps == 0 || step <= r->o->steps; ++step) {
		load_points(&g, step);
		if (g.stage == 0)
			first_stage(&g);
		else
			last_stage(&g);
		reduce_gradients(r, &g.m, g.copies);
		improve(r, &g.m, 0.01f, (float)GRID / (float)r->ranks);
		report_step(&g, step);
		wait_at_mark(r, step, step == r->o->steps);
	}
	if (g.copies != NULL)
		NCCL(CommDestroy(g.copies));
	NCCL(CommDestroy(g.pipe));
	NCCL(CommDestroy(g.side));
	free_model(&g.m);
}

int main(int argc, char **argv)
{
	return (run_ranks(argc, argv, 10, train_grid));
}
