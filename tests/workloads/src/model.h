// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The parameters of a model: parts side by side in a single buffer, with buffers of the same shape for gradients and for Adam's two
 * means. Behind the gradients lies the loss, so that a single reduction takes both.
 */
#ifndef MODEL_H
#define MODEL_H

#include "ranks.h"

enum { MAX_PARTS = 64 };

struct model {
	unsigned n, parts;
	unsigned at[MAX_PARTS];
	unsigned size[MAX_PARTS];
	float scale[MAX_PARTS], shift[MAX_PARTS];
	uint32_t seed[MAX_PARTS];
	CUdeviceptr p, g, m, v, loss;
	float b1t, b2t; /* Adam's decays, to the power of the steps so far */
	float *host;
};

/* Adds a part of n numbers that begin as shift + scale times a number from -1 to 1. Returns its number. */
unsigned add_part(struct model *m, unsigned n, float scale, float shift);

/* Makes the buffers when all parts are known. Part i is filled from seed + seed[i], which add_part sets to i. */
void make_model(struct rank *r, struct model *m, uint32_t seed);
void free_model(struct model *m);

/* Fills a part with its first numbers, as make_model does for all parts. */
void begin_part(struct rank *r, struct model *m, unsigned i, uint32_t seed);

/* Where a part and its gradient are. */
CUdeviceptr part(const struct model *m, unsigned i);
CUdeviceptr gradient(const struct model *m, unsigned i);

/* Adam, once, after multiplying the gradients with share. */
void improve(struct rank *r, struct model *m, float rate, float share);

/*
 * The same for some numbers of the model, with their gradients and means. begin_improvement is called before, once for
 * each step.
 */
struct numbers {
	unsigned n;
	CUdeviceptr p, g, m, v;
};
void begin_improvement(struct model *m);
void improve_numbers(struct rank *r, const struct model *m, struct numbers x, float rate, float share);

/* The hash of all parameters, when all work before is done. */
uint64_t hash_model(struct rank *r, struct model *m);

/* The loss that was computed last, when all work before is done. */
float read_loss(struct rank *r, struct model *m);

/* All ranks' gradients and losses are added, in place. */
void reduce_gradients(struct rank *r, struct model *m, ncclComm_t comm);

/*
 * Changes each parameter a little, in turn, and compares the change of the loss that forward computes with the
 * gradient; prints the largest difference.
 */
void check_gradients(struct rank *r, struct model *m, void (*forward)(void *), void (*backward)(void *), void *user);

/* Fails unless all ranks' parameters have the hash h; returns h. */
uint64_t agreed(struct rank *r, uint64_t h);

/* Fails unless all ranks' parameters are the same; returns the hash. */
uint64_t agreed_hash(struct rank *r, struct model *m);

#endif
