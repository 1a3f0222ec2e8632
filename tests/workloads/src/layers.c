// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "layers.h"

/* The parameters of a kernel, by address. */
#define P(...) ((void *[]){ __VA_ARGS__ })

void over(struct rank *r, enum kernel k, unsigned n, void **params)
{
	CU(cuLaunchKernel(r->kernels[k], (n + 127) / 128, 1, 1, 128, 1, 1, 0, r->stream, params, NULL));
}

void per_row(struct rank *r, enum kernel k, unsigned rows, void **params)
{
	CU(cuLaunchKernel(r->kernels[k], (rows + 3) / 4, 1, 1, 32, 4, 1, 0, r->stream, params, NULL));
}

CUdeviceptr floats(unsigned n)
{
	CUdeviceptr p;

	CU(cuMemAlloc(&p, 4 * (size_t)n));
	CU(cuMemsetD32(p, 0, n));
	/*
	 * cuMemcpy can return before the copy has ended, and no other stream waits
	 * for the copy.
	 */
	CU(cuStreamSynchronize(NULL));
	return (p);
}

void gemm(struct rank *r, struct gemm g)
{
	if (g.batch == 0)
		g.batch = 1;
	if (g.heads == 0)
		g.heads = 1;
	void **params = P(&g.a, &g.b, &g.c, &g.m, &g.n, &g.k, &g.ars, &g.acs, &g.brs, &g.bcs, &g.crs, &g.heads, &g.a1, &g.a2, &g.b1, &g.b2,
		&g.c1, &g.c2, &g.alpha, &g.keep);
	CU(cuLaunchKernel(r->kernels[K_gemm], (g.n + 31) / 32, (g.m + 31) / 32, g.batch, 32, 8, 1, 0, r->stream, params, NULL));
}

void linear(struct rank *r, const struct linear *l)
{
	CUdeviceptr y = l->y, b = l->b;
	unsigned n = l->rows * l->out, columns = l->out;

	gemm(r, (struct gemm){
		.a = l->x, .b = l->w, .c = l->y, .m = l->rows, .n = l->out, .k = l->in,
		.ars = l->in, .acs = 1, .brs = l->out, .bcs = 1, .crs = l->out, .alpha = 1,
	});
	if (b != 0)
		over(r, K_add_bias, n, P(&y, &b, &n, &columns));
}

void linear_gradient(struct rank *r, const struct linear *l, CUdeviceptr dy, CUdeviceptr dx, float keep, CUdeviceptr dw, CUdeviceptr db, float keep_w)
{
	unsigned rows = l->rows, columns = l->out;

	gemm(r, (struct gemm){
		.a = l->x, .b = dy, .c = dw, .m = l->in, .n = l->out, .k = l->rows,
		.ars = 1, .acs = l->in, .brs = l->out, .bcs = 1, .crs = l->out, .alpha = 1, .keep = keep_w,
	});
	if (db != 0)
		over(r, K_sum_rows, columns, P(&db, &dy, &rows, &columns, &keep_w));
	if (dx != 0)
		gemm(r, (struct gemm){
			.a = dy, .b = l->w, .c = dx, .m = l->rows, .n = l->in, .k = l->out,
			.ars = l->out, .acs = 1, .brs = 1, .bcs = l->out, .crs = l->in, .alpha = 1, .keep = keep,
		});
}

void normalise(struct rank *r, const struct norm *l)
{
	struct norm n = *l;

	per_row(r, K_normalise, n.rows, P(&n.y, &n.x, &n.gain, &n.shift, &n.mean, &n.spread, &n.rows, &n.columns));
}

void normalise_gradient(struct rank *r, const struct norm *l, CUdeviceptr dy, CUdeviceptr dx, float keep, CUdeviceptr dgain, CUdeviceptr dshift, float keep_w)
{
	struct norm n = *l;

	per_row(r, K_normalise_gradient, n.rows, P(&dx, &dy, &n.x, &n.gain, &n.mean, &n.spread, &n.rows, &n.columns, &keep));
	over(r, K_normalise_gain_gradient, n.columns, P(&dgain, &dshift, &dy, &n.x, &n.mean, &n.spread, &n.rows, &n.columns, &keep_w));
}

void activate(struct rank *r, enum kernel k, CUdeviceptr y, CUdeviceptr x, unsigned n)
{
	over(r, k, n, P(&y, &x, &n));
}

void activate_gradient(struct rank *r, enum kernel k, CUdeviceptr dx, CUdeviceptr dy, CUdeviceptr x, unsigned n)
{
	over(r, k == K_relu ? K_relu_gradient : K_gelu_gradient, n, P(&dx, &dy, &x, &n));
}

void cross_entropy(struct rank *r, CUdeviceptr loss, CUdeviceptr each, CUdeviceptr dx, CUdeviceptr x, CUdeviceptr target, unsigned rows, unsigned columns,
	float scale)
{
	scale /= (float)rows;
	per_row(r, K_cross_entropy, rows, P(&each, &dx, &x, &target, &rows, &columns, &scale));
	total(r, loss, each, rows);
	mix(r, loss, loss, 1, 0, scale);
}

void mix(struct rank *r, CUdeviceptr y, CUdeviceptr x, unsigned n, float a, float b)
{
	over(r, K_mix, n, P(&y, &x, &n, &a, &b));
}

void sum_of(struct rank *r, CUdeviceptr y, CUdeviceptr x, CUdeviceptr z, unsigned n)
{
	over(r, K_sum_of, n, P(&y, &x, &z, &n));
}

void total(struct rank *r, CUdeviceptr sum, CUdeviceptr x, unsigned n)
{
	CU(cuLaunchKernel(r->kernels[K_total], 1, 1, 1, 256, 1, 1, 0, r->stream, P(&sum, &x, &n), NULL));
}
