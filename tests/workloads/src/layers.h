// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Functions that launch a kernel, or several for a layer. All put their work into the rank's stream and return.
 */
#ifndef LAYERS_H
#define LAYERS_H

#include "ranks.h"

/* Launches a thread for each of n elements. */
void over(struct rank *r, enum kernel k, unsigned n, void **params);

/* Launches a single warp for each row. */
void per_row(struct rank *r, enum kernel k, unsigned rows, void **params);

/* Device memory for so many floats, zero. */
CUdeviceptr floats(unsigned n);

/* C = alpha A B + keep C: see matrix.ptx. The order is that of the kernel's parameters. */
struct gemm {
	CUdeviceptr a, b, c;
	unsigned m, n, k;
	unsigned ars, acs, brs, bcs, crs;
	unsigned heads, a1, a2, b1, b2, c1, c2;
	float alpha, keep;
	unsigned batch;
};
void gemm(struct rank *r, struct gemm g);

/* y = x w + b, with w of in rows and out columns. */
struct linear {
	unsigned rows, in, out;
	CUdeviceptr x, w, b, y; /* b may be 0 */
};
void linear(struct rank *r, const struct linear *l);

/* From dy to dx (+ keep dx), dw and db (+ keep_w of each). dx and db may be 0. */
void linear_gradient(struct rank *r, const struct linear *l, CUdeviceptr dy, CUdeviceptr dx, float keep, CUdeviceptr dw, CUdeviceptr db, float keep_w);

/* Layer normalisation. */
struct norm {
	unsigned rows, columns;
	CUdeviceptr x, y, gain, shift, mean, spread;
};
void normalise(struct rank *r, const struct norm *l);
void normalise_gradient(struct rank *r, const struct norm *l, CUdeviceptr dy, CUdeviceptr dx, float keep, CUdeviceptr dgain, CUdeviceptr dshift, float keep_w);

/* K_relu or K_gelu, and their gradients. */
void activate(struct rank *r, enum kernel k, CUdeviceptr y, CUdeviceptr x, unsigned n);
void activate_gradient(struct rank *r, enum kernel k, CUdeviceptr dx, CUdeviceptr dy, CUdeviceptr x, unsigned n);

/* The mean of the rows' cross entropies goes to loss, from a buffer for rows floats; dx gets its gradient. */
void cross_entropy(struct rank *r, CUdeviceptr loss, CUdeviceptr each, CUdeviceptr dx, CUdeviceptr x, CUdeviceptr target, unsigned rows, unsigned columns,
	float scale);

/* y = y a + x b, y = x + z, *sum = the sum of n. */
void mix(struct rank *r, CUdeviceptr y, CUdeviceptr x, unsigned n, float a, float b);
void sum_of(struct rank *r, CUdeviceptr y, CUdeviceptr x, CUdeviceptr z, unsigned n);
void total(struct rank *r, CUdeviceptr sum, CUdeviceptr x, unsigned n);

#endif
