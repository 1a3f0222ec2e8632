// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * A model that is divided over the ranks, as ZeRO and FSDP do. Its parts are grouped into units, and each rank has a
 * share of each unit: parameters, the gradients' sum, and Adam's two means. Before a unit is used, its parameters are
 * gathered from all ranks. When a rank has computed the unit's gradients, each rank gets the sum of its share. Adam
 * changes the share alone.
 *
 *	stage 1   a single unit, with parameters and gradients that stay allocated
 *	stage 3   units with parameters and gradients that are allocated for each use, and freed after it
 *
 * part() and gradient() of the model are right for the unit that was gathered last.
 */
#ifndef SHARES_H
#define SHARES_H

#include "model.h"

enum { MAX_UNITS = 8 };

struct unit {
	unsigned first, end;    /* parts: from first, before end */
	unsigned at, n;         /* numbers of the model */
	unsigned per;           /* numbers in a rank's share; the last shares may be longer than the unit */
	CUdeviceptr p, g, m, v; /* this rank's share */
	CUdeviceptr parameters, gradients; /* of the unit, 0: not there */
};

struct shares {
	struct rank *r;
	struct model *m;
	int stage;
	unsigned units;
	struct unit unit[MAX_UNITS];
};

/* Divides a model when all its parts are known, in the place of make_model. Unit i begins with part first[i]. */
void make_shares(struct shares *s, struct rank *r, struct model *m, int stage, const unsigned *first, unsigned units, uint32_t seed);
void free_shares(struct shares *s);

/* Gathers all parameters of a unit; drop_unit frees them, except in stage 1. */
void gather_unit(struct shares *s, unsigned i);
void drop_unit(struct shares *s, unsigned i);

/*
 * Allocates memory for the gradients of a unit; give_gradients adds up all ranks' gradients, and frees the memory,
 * except in stage 1.
 */
void take_gradients(struct shares *s, unsigned i);
void give_gradients(struct shares *s, unsigned i);

/* Adds up the losses of all ranks, in place. */
void reduce_loss(struct shares *s);

/* Adam on this rank's share, once, after multiplying the gradients with share. */
void improve_shares(struct shares *s, float rate, float share);

/* Fails unless all ranks gather the same parameters; returns their hash, which is that of the model if it were not divided. */
uint64_t agreed_hash_of_shares(struct shares *s);

#endif
