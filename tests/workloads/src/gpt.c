// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * A small transformer: words and places embedded, blocks of causal attention and a perceptron with layer normalisation
 * before each, and a prediction of the next word. It learns sequences in which each word follows from the word before
 * by one of two maps, which is drawn for each sequence. Each rank has its own sequences. Inputs go through pinned
 * memory.
 *
 * With --recompute, the activations that a block's forward pass keeps for its gradients are freed when the block ends.
 * The backward pass of a block begins with its forward pass once more, as torch.utils.checkpoint does.
 */
#include <string.h>

#include "data.h"
#include "layers.h"
#include "model.h"

enum { BATCH = 4, LENGTH = 32, WIDTH = 32, HEADS = 2, BLOCKS = 2, WORDS = 64 };
enum { TOKENS = BATCH * LENGTH, HEAD = WIDTH / HEADS, WIDE = 4 * WIDTH };

/* The activations that a block computes from x, and how many numbers each has for a token. */
#define ACTIVATIONS(X)                                                                                            \
	X(n1, WIDTH) X(mean1, 1) X(spread1, 1) X(qkv, 3 * WIDTH) X(att, HEADS * LENGTH) X(heads, WIDTH) X(mid, WIDTH) \
	X(n2, WIDTH) X(mean2, 1) X(spread2, 1) X(up, WIDE) X(act, WIDE)

struct block {
	unsigned gain1, shift1, w_qkv, b_qkv, w_out, b_out, gain2, shift2, w_up, b_up, w_down, b_down;
	/* The activations that the gradients need: x is the block's input, mid lies between its two halves. */
	CUdeviceptr x;
#define X(name, n) CUdeviceptr name;
	ACTIVATIONS(X)
#undef X
};

struct gpt {
	struct rank *r;
	struct model m;
	unsigned words, places, gain, shift, w, b;
	struct block block[BLOCKS];
	CUdeviceptr ids, targets, out, n, mean, spread, logits, each;
	CUdeviceptr half, dx, dn, dqkv, datt, dheads, dup, dlogits; /* used by all blocks in turn */
	uint32_t *host; /* ids, then targets */
};

static void make_block(struct gpt *g, struct block *b)
{
	struct model *m = &g->m;

	b->gain1 = add_part(m, WIDTH, 0, 1);
	b->shift1 = add_part(m, WIDTH, 0, 0);
	b->w_qkv = add_part(m, WIDTH * 3 * WIDTH, 0.25f, 0);
	b->b_qkv = add_part(m, 3 * WIDTH, 0, 0);
	b->w_out = add_part(m, WIDTH * WIDTH, 0.12f, 0);
	b->b_out = add_part(m, WIDTH, 0, 0);
	b->gain2 = add_part(m, WIDTH, 0, 1);
	b->shift2 = add_part(m, WIDTH, 0, 0);
	b->w_up = add_part(m, WIDTH * WIDE, 0.25f, 0);
	b->b_up = add_part(m, WIDE, 0, 0);
	b->w_down = add_part(m, WIDE * WIDTH, 0.06f, 0);
	b->b_down = add_part(m, WIDTH, 0, 0);
	b->x = floats(TOKENS * WIDTH);
	if (g->r->o->recompute)
		return;
#define X(name, n) b->name = floats(TOKENS * (n));
	ACTIVATIONS(X)
#undef X
}

/* The memory of a block's activations comes and goes in the order of the stream's work. */
static void allocate_activations(struct gpt *g, struct block *b)
{
#define X(name, n) CU(cuMemAllocAsync(&b->name, TOKENS * (n) * sizeof(float), g->r->stream));
	ACTIVATIONS(X)
#undef X
}

static void free_activations(struct gpt *g, struct block *b)
{
#define X(name, n) CU(cuMemFreeAsync(b->name, g->r->stream));
	ACTIVATIONS(X)
#undef X
}

static void make_gpt(struct gpt *g, struct rank *r)
{
	memset(g, 0, sizeof(*g));
	g->r = r;
	g->words = add_part(&g->m, WORDS * WIDTH, 0.5f, 0);
	g->places = add_part(&g->m, LENGTH * WIDTH, 0.1f, 0);
	for (int i = 0; i < BLOCKS; ++i)
		make_block(g, &g->block[i]);
	g->gain = add_part(&g->m, WIDTH, 0, 1);
	g->shift = add_part(&g->m, WIDTH, 0, 0);
	g->w = add_part(&g->m, WIDTH * WORDS, 0.2f, 0);
	g->b = add_part(&g->m, WORDS, 0, 0);
	make_model(r, &g->m, r->o->seed * 1000);
	g->ids = floats(TOKENS);
	g->targets = floats(TOKENS);
	g->out = floats(TOKENS * WIDTH);
	g->n = floats(TOKENS * WIDTH);
	g->mean = floats(TOKENS);
	g->spread = floats(TOKENS);
	g->logits = floats(TOKENS * WORDS);
	g->each = floats(TOKENS);
	g->half = floats(TOKENS * WIDTH);
	g->dx = floats(TOKENS * WIDTH);
	g->dn = floats(TOKENS * WIDTH);
	g->dqkv = floats(TOKENS * 3 * WIDTH);
	g->datt = floats(BATCH * HEADS * LENGTH * LENGTH);
	g->dheads = floats(TOKENS * WIDTH);
	g->dup = floats(TOKENS * WIDE);
	g->dlogits = floats(TOKENS * WORDS);
	CU(cuMemAllocHost((void **)&g->host, 2 * TOKENS * sizeof(uint32_t)));
}

static struct norm norm_of(struct gpt *g, CUdeviceptr x, CUdeviceptr y, CUdeviceptr mean, CUdeviceptr spread, unsigned gain, unsigned shift)
{
	return ((struct norm){
		.rows = TOKENS, .columns = WIDTH, .x = x, .y = y, .gain = part(&g->m, gain), .shift = part(&g->m, shift), .mean = mean, .spread = spread,
	});
}

static struct linear linear_of(struct gpt *g, CUdeviceptr x, CUdeviceptr y, unsigned in, unsigned out, unsigned w, unsigned b)
{
	return ((struct linear){ .rows = TOKENS, .in = in, .out = out, .x = x, .y = y, .w = part(&g->m, w), .b = part(&g->m, b) });
}

/* All products of attention are over a single head of a single sequence: rows of qkv and of heads have their heads side by side. */
enum side { QKV, HEADS_OUT, SQUARE };

static void find_strides(enum side s, unsigned *row, unsigned *batch, unsigned *head)
{
	*row = s == QKV ? 3 * WIDTH : s == HEADS_OUT ? WIDTH : LENGTH;
	*batch = s == SQUARE ? HEADS * LENGTH * LENGTH : LENGTH * *row;
	*head = s == SQUARE ? LENGTH * LENGTH : HEAD;
}

struct side_of {
	CUdeviceptr p;
	enum side s;
	bool transposed;
};

static void per_head(struct gpt *g, unsigned m, unsigned n, unsigned k, struct side_of a, struct side_of b, struct side_of c)
{
	struct gemm p = { .a = a.p, .b = b.p, .c = c.p, .m = m, .n = n, .k = k, .heads = HEADS, .batch = BATCH * HEADS, .alpha = 1, .acs = 1, .bcs = 1 };

	find_strides(a.s, &p.ars, &p.a1, &p.a2);
	find_strides(b.s, &p.brs, &p.b1, &p.b2);
	find_strides(c.s, &p.crs, &p.c1, &p.c2);
	if (a.transposed) {
		p.acs = p.ars;
		p.ars = 1;
	}
	if (b.transposed) {
		p.bcs = p.brs;
		p.brs = 1;
	}
	gemm(g->r, p);
}

static const float root = 0.25f; /* 1 / the root of HEAD */

static void run_softmax(struct gpt *g, enum kernel k, CUdeviceptr s, CUdeviceptr p)
{
	unsigned rows = BATCH * HEADS * LENGTH, columns = LENGTH;
	float scale = root;

	if (k == K_causal_softmax)
		per_row(g->r, k, rows, (void *[]){ &s, &rows, &columns, &scale });
	else
		per_row(g->r, k, rows, (void *[]){ &s, &p, &rows, &columns, &scale });
}

/* q, k and v lie side by side. */
static CUdeviceptr third_of(CUdeviceptr qkv, unsigned i)
{
	return (qkv + 4 * (CUdeviceptr)(i * WIDTH));
}

/* Computes the block's output into out. If out is 0, computes only the activations that the gradients need. */
static void forward_block(struct gpt *g, struct block *b, CUdeviceptr out)
{
	struct rank *r = g->r;
	CUdeviceptr q = third_of(b->qkv, 0), k = third_of(b->qkv, 1), v = third_of(b->qkv, 2);
	struct norm n1 = norm_of(g, b->x, b->n1, b->mean1, b->spread1, b->gain1, b->shift1);
	struct norm n2 = norm_of(g, b->mid, b->n2, b->mean2, b->spread2, b->gain2, b->shift2);
	struct linear qkv = linear_of(g, b->n1, b->qkv, WIDTH, 3 * WIDTH, b->w_qkv, b->b_qkv);
	struct linear o = linear_of(g, b->heads, g->half, WIDTH, WIDTH, b->w_out, b->b_out);
	struct linear up = linear_of(g, b->n2, b->up, WIDTH, WIDE, b->w_up, b->b_up);
	struct linear down = linear_of(g, b->act, g->half, WIDE, WIDTH, b->w_down, b->b_down);

	normalise(r, &n1);
	linear(r, &qkv);
	per_head(g, LENGTH, LENGTH, HEAD, (struct side_of){ q, QKV, false }, (struct side_of){ k, QKV, true }, (struct side_of){ b->att, SQUARE, false });
	run_softmax(g, K_causal_softmax, b->att, 0);
	per_head(g, LENGTH, HEAD, LENGTH, (struct side_of){ b->att, SQUARE, false }, (struct side_of){ v, QKV, false },
		(struct side_of){ b->heads, HEADS_OUT, false });
	linear(r, &o);
	sum_of(r, b->mid, b->x, g->half, TOKENS * WIDTH);
	normalise(r, &n2);
	linear(r, &up);
	activate(r, K_gelu, b->act, b->up, TOKENS * WIDE);
	if (out == 0)
		return;
	linear(r, &down);
	sum_of(r, out, b->mid, g->half, TOKENS * WIDTH);
}

/* Turns dx from the gradient of the block's output into that of x. */
static void backward_block(struct gpt *g, struct block *b)
{
	struct rank *r = g->r;
	struct model *m = &g->m;
	struct norm n1 = norm_of(g, b->x, b->n1, b->mean1, b->spread1, b->gain1, b->shift1);
	struct norm n2 = norm_of(g, b->mid, b->n2, b->mean2, b->spread2, b->gain2, b->shift2);
	struct linear qkv = linear_of(g, b->n1, b->qkv, WIDTH, 3 * WIDTH, b->w_qkv, b->b_qkv);
	struct linear o = linear_of(g, b->heads, g->half, WIDTH, WIDTH, b->w_out, b->b_out);
	struct linear up = linear_of(g, b->n2, b->up, WIDTH, WIDE, b->w_up, b->b_up);
	struct linear down = linear_of(g, b->act, g->half, WIDE, WIDTH, b->w_down, b->b_down);
	struct side_of q = { third_of(b->qkv, 0), QKV, false }, k = { third_of(b->qkv, 1), QKV, false }, v = { third_of(b->qkv, 2), QKV, true };
	struct side_of att = { b->att, SQUARE, true }, dheads = { g->dheads, HEADS_OUT, false }, datt = { g->datt, SQUARE, false };
	struct side_of datt_t = { g->datt, SQUARE, true };

	linear_gradient(r, &down, g->dx, g->dup, 0, gradient(m, b->w_down), gradient(m, b->b_down), 0);
	activate_gradient(r, K_gelu, g->dup, g->dup, b->up, TOKENS * WIDE);
	linear_gradient(r, &up, g->dup, g->dn, 0, gradient(m, b->w_up), gradient(m, b->b_up), 0);
	normalise_gradient(r, &n2, g->dn, g->dx, 1, gradient(m, b->gain2), gradient(m, b->shift2), 0);

	linear_gradient(r, &o, g->dx, g->dheads, 0, gradient(m, b->w_out), gradient(m, b->b_out), 0);
	per_head(g, LENGTH, LENGTH, HEAD, dheads, v, datt);
	per_head(g, LENGTH, HEAD, LENGTH, att, dheads, (struct side_of){ third_of(g->dqkv, 2), QKV, false });
	run_softmax(g, K_causal_softmax_gradient, g->datt, b->att);
	per_head(g, LENGTH, HEAD, LENGTH, datt, k, (struct side_of){ third_of(g->dqkv, 0), QKV, false });
	per_head(g, LENGTH, HEAD, LENGTH, datt_t, q, (struct side_of){ third_of(g->dqkv, 1), QKV, false });
	linear_gradient(r, &qkv, g->dqkv, g->dn, 0, gradient(m, b->w_qkv), gradient(m, b->b_qkv), 0);
	normalise_gradient(r, &n1, g->dn, g->dx, 1, gradient(m, b->gain1), gradient(m, b->shift1), 0);
}

static struct norm last_norm(struct gpt *g)
{
	return (norm_of(g, g->out, g->n, g->mean, g->spread, g->gain, g->shift));
}

static struct linear last_layer(struct gpt *g)
{
	return (linear_of(g, g->n, g->logits, WIDTH, WORDS, g->w, g->b));
}

/* Computes the loss of the loaded sequences, and the activations that its gradients need. */
static void run_forward(void *user)
{
	struct gpt *g = user;
	struct rank *r = g->r;
	struct norm n = last_norm(g);
	struct linear l = last_layer(g);
	CUdeviceptr words = part(&g->m, g->words), places = part(&g->m, g->places);
	unsigned all = TOKENS * WIDTH, width = WIDTH, length = LENGTH;

	over(r, K_embed, all, (void *[]){ &g->block[0].x, &words, &places, &g->ids, &all, &width, &length });
	for (int i = 0; i < BLOCKS; ++i) {
		struct block *b = &g->block[i];

		if (r->o->recompute)
			allocate_activations(g, b);
		forward_block(g, b, i < BLOCKS - 1 ? g->block[i + 1].x : g->out);
		if (r->o->recompute)
			free_activations(g, b);
	}
	normalise(r, &n);
	linear(r, &l);
	cross_entropy(r, g->m.loss, g->each, g->dlogits, g->logits, g->targets, TOKENS, WORDS, 1);
}

static void run_backward(void *user)
{
	struct gpt *g = user;
	struct rank *r = g->r;
	struct model *m = &g->m;
	struct norm n = last_norm(g);
	struct linear l = last_layer(g);
	CUdeviceptr dwords = gradient(m, g->words), dplaces = gradient(m, g->places);
	unsigned width = WIDTH, table = WORDS * WIDTH, tokens = TOKENS, batch = BATCH, line = LENGTH * WIDTH;
	float none = 0;

	linear_gradient(r, &l, g->dlogits, g->dn, 0, gradient(m, g->w), gradient(m, g->b), 0);
	normalise_gradient(r, &n, g->dn, g->dx, 0, gradient(m, g->gain), gradient(m, g->shift), 0);
	for (int i = BLOCKS - 1; i >= 0; --i) {
		struct block *b = &g->block[i];

		if (r->o->recompute) {
			allocate_activations(g, b);
			forward_block(g, b, 0);
		}
		backward_block(g, b);
		if (r->o->recompute)
			free_activations(g, b);
	}
	over(r, K_embed_gradient, table, (void *[]){ &dwords, &g->dx, &g->ids, &table, &width, &tokens });
	over(r, K_sum_rows, line, (void *[]){ &dplaces, &g->dx, &batch, &line, &none });
}

/* A sequence follows either of two maps from words to words. */
static void load_sequences(struct gpt *g, int step)
{
	struct rank *r = g->r;
	uint32_t seed = r->o->seed * 7919 + (uint32_t)(step * r->ranks + r->rank);

	/* The host buffer is free: the wait for the last step's hash was a wait for its copies, too. */
	for (unsigned b = 0; b < BATCH; ++b) {
		uint32_t map = random_word(seed, 2 * b) % 2, word = random_word(seed, 2 * b + 1) % WORDS;

		for (unsigned t = 0; t <= LENGTH; ++t) {
			if (t < LENGTH)
				g->host[b * LENGTH + t] = word;
			if (t > 0)
				g->host[TOKENS + b * LENGTH + t - 1] = word;
			word = random_word(44 + map, word) % WORDS;
		}
	}
	CU(cuMemcpyHtoDAsync(g->ids, g->host, TOKENS * sizeof(uint32_t), r->stream));
	CU(cuMemcpyHtoDAsync(g->targets, g->host + TOKENS, TOKENS * sizeof(uint32_t), r->stream));
}

static void train_gpt(struct rank *r)
{
	struct gpt g;
	bool last = false;

	make_gpt(&g, r);
	if (r->o->gradients) {
		load_sequences(&g, 1);
		check_gradients(r, &g.m, run_forward, run_backward, &g);
		return;
	}
	for (int step = 1; !last; ++step) {
		load_sequences(&g, step);
		run_forward(&g);
		run_backward(&g);
		reduce_gradients(r, &g.m, r->world);
		improve(r, &g.m, 0.01f, 1.0f / (float)r->ranks);
		print_step(r, step, read_loss(r, &g.m) / r->ranks, agreed_hash(r, &g.m));
		last = is_last_step(r, step);
		wait_at_mark(r, step, last);
	}
	CU(cuMemFreeHost(g.host));
	free_model(&g.m);
}

int main(int argc, char **argv)
{
	return (run_ranks(argc, argv, 10, train_gpt));
}
