// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * An iteration as usual in numerical programs: all sweeps of a step are queued, and the host looks at the result once,
 * at the end of the step. A step is SWEEPS sweeps of four kernels each,
 *
 *	x += tanh(0.2 a x + noise) / 64
 *
 * and each fiftieth x is copied by another stream, ordered by an event that is destroyed at once. Each sweep changes
 * all that follow, so the hash tells whether a sweep was left out, was done twice, or came in another order.
 */
#include <stdlib.h>

#include "data.h"
#include "layers.h"

enum { SIDE = 96, N = SIDE * SIDE, BYTES = 4 * N, SWEEPS = 600, EACH = 50, KEPT = SWEEPS / EACH };

struct solver {
	struct rank *r;
	CUdeviceptr a, x, noise, product, change, kept;
	CUstream side;
	float *host; /* x, and the kept copy of x */
};

static void fill_floats(struct solver *s, CUdeviceptr p, uint32_t seed)
{
	unsigned n = N;
	float scale = 0.25f, shift = 0;

	over(s->r, K_fill_uniform, N, (void *[]){ &p, &n, &seed, &scale, &shift });
}

/* The side waits for the sweeps so far, and later sweeps for the copy. */
static void keep_copy(struct solver *s, int i)
{
	CUevent swept, copied;

	CU(cuEventCreate(&swept, CU_EVENT_DISABLE_TIMING));
	CU(cuEventCreate(&copied, CU_EVENT_DISABLE_TIMING));
	CU(cuEventRecord(swept, s->r->stream));
	CU(cuStreamWaitEvent(s->side, swept, 0));
	CU(cuMemcpyDtoDAsync(s->kept + (CUdeviceptr)(i * BYTES), s->x, BYTES, s->side));
	CU(cuEventRecord(copied, s->side));
	CU(cuStreamWaitEvent(s->r->stream, copied, 0));
	CU(cuEventDestroy(swept));
	CU(cuEventDestroy(copied));
}

static void queue_step(struct solver *s, int step)
{
	struct rank *r = s->r;
	struct gemm g = {
		.a = s->a, .b = s->x, .c = s->product, .m = SIDE, .n = SIDE, .k = SIDE, .ars = SIDE, .acs = 1, .brs = SIDE, .bcs = 1, .crs = SIDE,
		.alpha = 0.2f,
	};

	for (int sweep = 0; sweep < SWEEPS; ++sweep) {
		fill_floats(s, s->noise, r->o->seed * 7919 + (uint32_t)(step * SWEEPS + sweep));
		gemm(r, g);
		over(r, K_tanh_of_sum, N, (void *[]){ &s->change, &s->noise, &s->product, &(unsigned){ N } });
		mix(r, s->x, s->change, N, 1, 1.0f / 64);
		if (sweep % EACH == EACH - 1)
			keep_copy(s, sweep / EACH);
	}
}

static void run_solver(struct rank *r)
{
	struct solver s = { .r = r, .a = floats(N), .x = floats(N), .noise = floats(N), .product = floats(N), .change = floats(N), .kept = floats(KEPT * N) };
	uint64_t h = HASH_BEGIN;

	CU(cuStreamCreate(&s.side, CU_STREAM_NON_BLOCKING));
	s.host = malloc((KEPT + 1) * (size_t)BYTES);
	if (s.host == NULL)
		fail("no memory");
	fill_floats(&s, s.a, r->o->seed);
	for (int step = 1; r->o->steps == 0 || step <= r->o->steps; ++step) {
		queue_step(&s, step);
		CU(cuMemcpyDtoHAsync(s.host, s.x, BYTES, r->stream));
		CU(cuMemcpyDtoHAsync(s.host + N, s.kept, KEPT * (size_t)BYTES, r->stream));
		CU(cuStreamSynchronize(r->stream));
		h = hash_bytes(h, s.host, (KEPT + 1) * (size_t)BYTES);
		print_step(r, step, 0, h);
	}
	free(s.host);
	CU(cuStreamDestroy(s.side));
}

int main(int argc, char **argv)
{
	return (run_ranks(argc, argv, 3, run_solver));
}
