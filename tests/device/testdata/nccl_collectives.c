// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// devices: 4
// limit: 60s
// expect: processes: 1, 2, 4 ranks
// expect: threads: 1, 2, 4 ranks
// expect: devices of one thread: 1, 2, 4 ranks

/* Each collective with each type and reduction, against results computed here. Values are small enough to be exact. */
#include "ranks.h"

struct format {
	int bits, exponent, mantissa; /* exponent 0: an integer */
};

static const struct format formats[ncclNumTypes] = {
	[ncclInt8] = { 8, 0, 0 },	  [ncclUint8] = { 8, 0, 0 },	   [ncclInt32] = { 32, 0, 0 },
	[ncclUint32] = { 32, 0, 0 },	  [ncclInt64] = { 64, 0, 0 },	   [ncclUint64] = { 64, 0, 0 },
	[ncclFloat16] = { 16, 5, 10 },	  [ncclFloat32] = { 32, 8, 23 },   [ncclFloat64] = { 64, 11, 52 },
	[ncclBfloat16] = { 16, 8, 7 },	  [ncclFloat8e4m3] = { 8, 4, 3 }, [ncclFloat8e5m2] = { 8, 5, 2 },
};

/* An element of a positive number that the type has. */
static unsigned long long encode_number(int type, double v)
{
	const struct format *f = &formats[type];
	int e = 0;

	if (f->exponent == 0)
		return ((unsigned long long)v);
	for (; v >= 2; v /= 2)
		++e;
	for (; v < 1; v *= 2)
		--e;
	const double mantissa = (v - 1) * (double)(1ull << f->mantissa);

	HOLDS(mantissa == (double)(unsigned long long)mantissa);
	return ((unsigned long long)(e + (1 << (f->exponent - 1)) - 1) << f->mantissa | (unsigned long long)mantissa);
}

static void store_number(void *to, int type, size_t i, double v)
{
	const unsigned long long bits = encode_number(type, v);
	const size_t size = (size_t)formats[type].bits / 8;

	memcpy((char *)to + i * size, &bits, size);
}

enum { REDOP = 5, COUNT = 37 }; /* REDOP: with a factor */

/* The kinds that reduce come first. */
enum { ALL_REDUCE, REDUCE, REDUCE_SCATTER, BROADCAST, ALL_GATHER, ALL_TO_ALL, GATHER, SCATTER };

struct trial {
	int kind, type, op, root;
	int in_place;
};

/* The value that rank r sends at i: 1 or 2. */
static double sent_value(int r, size_t i)
{
	return (1 + ((r * 5 + (int)i * 3) >> 1 & 1));
}

static double rank_factor(int r)
{
	return (1 + r % 2);
}

static double reduced_value(const struct trial *t, int n, size_t i)
{
	double all = t->op == ncclProd ? 1 : 0;

	for (int r = 0; r < n; ++r) {
		const double v = sent_value(r, i);

		if (t->op == ncclProd)
			all *= v;
		else if (t->op == ncclMax)
			all = v > all ? v : all;
		else if (t->op == ncclMin)
			all = all == 0 || v < all ? v : all;
		else
			all += t->op == REDOP ? v * rank_factor(r) : v;
	}
	if (t->op == ncclAvg)
		all /= n;
	if (formats[t->type].exponent == 0)
		all = (double)(long long)all;
	return (all);
}

/* How many elements a rank sends and receives, and the value that must have been received at i; 0: any. */
static size_t sent_count(const struct trial *t, int n)
{
	return (t->kind == REDUCE_SCATTER || t->kind == ALL_TO_ALL || t->kind == SCATTER ? COUNT * (size_t)n : COUNT);
}

static size_t received_count(const struct trial *t, int n)
{
	return (t->kind == ALL_GATHER || t->kind == ALL_TO_ALL || t->kind == GATHER ? COUNT * (size_t)n : COUNT);
}

static double expected_value(const struct trial *t, int n, int r, size_t i)
{
	const int from = (int)(i / COUNT);

	switch (t->kind) {
	case ALL_REDUCE:
		return (reduced_value(t, n, i));
	case REDUCE:
		return (r == t->root ? reduced_value(t, n, i) : 0);
	case REDUCE_SCATTER:
		return (reduced_value(t, n, (size_t)r * COUNT + i));
	case BROADCAST:
		return (sent_value(t->root, i));
	case ALL_GATHER:
		return (sent_value(from, i % COUNT));
	case ALL_TO_ALL:
		return (sent_value(from, (size_t)r * COUNT + i % COUNT));
	case GATHER:
		return (r == t->root ? sent_value(from, i % COUNT) : 0);
	}
	return (sent_value(t->root, (size_t)r * COUNT + i));
}

static void issue_trial(struct rank *r, const struct trial *t)
{
	void *src = (void *)r->src, *dst = t->in_place ? src : (void *)r->dst;
	ncclRedOp_t op = t->op;

	if (t->op == REDOP) {
		unsigned char scalar[8];

		store_number(scalar, t->type, 0, rank_factor(r->rank));
		NOK(ncclRedOpCreatePreMulSum(&op, scalar, t->type, ncclScalarHostImmediate, r->comm));
	}
	switch (t->kind) {
	case ALL_REDUCE:
		NOK(ncclAllReduce(src, dst, COUNT, t->type, op, r->comm, r->stream));
		break;
	case REDUCE:
		NOK(ncclReduce(src, dst, COUNT, t->type, op, t->root, r->comm, r->stream));
		break;
	case REDUCE_SCATTER:
		NOK(ncclReduceScatter(src, dst, COUNT, t->type, op, r->comm, r->stream));
		break;
	case BROADCAST:
		if (t->in_place)
			NOK(ncclBcast(src, COUNT, t->type, t->root, r->comm, r->stream));
		else
			NOK(ncclBroadcast(src, dst, COUNT, t->type, t->root, r->comm, r->stream));
		break;
	case ALL_GATHER:
		NOK(ncclAllGather(src, dst, COUNT, t->type, r->comm, r->stream));
		break;
	case ALL_TO_ALL:
		NOK(ncclAlltoAll(src, dst, COUNT, t->type, r->comm, r->stream));
		break;
	case GATHER:
		NOK(ncclGather(src, dst, COUNT, t->type, t->root, r->comm, r->stream));
		break;
	case SCATTER:
		NOK(ncclScatter(src, dst, COUNT, t->type, t->root, r->comm, r->stream));
		break;
	}
	/* Operations that use the reduction keep the reduction. */
	if (t->op == REDOP)
		NOK(ncclRedOpDestroy(op, r->comm));
}

static void prepare_trial(struct rank *r, const struct trial *t)
{
	static _Thread_local unsigned char host[COUNT * MOST_RANKS * 8];
	const size_t size = (size_t)formats[t->type].bits / 8;

	OK(cuCtxSetCurrent(r->ctx));
	for (size_t i = 0; i < sent_count(t, r->ranks); ++i)
		store_number(host, t->type, i, sent_value(r->rank, i));
	OK(cuMemcpyHtoDAsync(r->src, host, sent_count(t, r->ranks) * size, r->stream));
	OK(cuMemsetD8Async(r->dst, 0x55, COUNT * MOST_RANKS * 8 + 1, r->stream));
}

static void verify_trial(struct rank *r, const struct trial *t)
{
	static _Thread_local unsigned char host[COUNT * MOST_RANKS * 8 + 1];
	const size_t size = (size_t)formats[t->type].bits / 8, n = received_count(t, r->ranks);

	OK(cuCtxSetCurrent(r->ctx));
	OK(cuMemcpyDtoHAsync(host, t->in_place ? r->src : r->dst, n * size + 1, r->stream));
	OK(cuStreamSynchronize(r->stream));
	for (size_t i = 0; i < n; ++i) {
		unsigned char want[8];
		const double v = expected_value(t, r->ranks, r->rank, i);

		if (v == 0) {
			if (t->in_place)
				continue;
			memset(want, 0x55, 8);
		} else {
			store_number(want, t->type, 0, v);
		}
		if (memcmp(want, host + i * size, size) != 0) {
			fprintf(stderr, "kind %d, type %d, op %d, root %d, in place %d: rank %d of %d at %zu has not %g\n", t->kind,
				t->type, t->op, t->root, t->in_place, r->rank, r->ranks, i, v);
			exit(1);
		}
	}
	HOLDS(t->in_place || host[n * size] == 0x55);
}

/* The next trial, or 0. Factors would make numbers that eight bits have not. */
static int next_trial(struct trial *t, int *at, int n)
{
	for (;; ++*at) {
		const int x = *at, ops = REDOP + 1;

		*t = (struct trial){ .op = x % ops, .type = x / ops % ncclNumTypes, .kind = x / ops / ncclNumTypes };
		t->root = x % n;
		if (t->kind > SCATTER)
			return (0);
		t->in_place = (t->kind == ALL_REDUCE || t->kind == REDUCE || t->kind == BROADCAST) && x % 2;
		if (t->kind > REDUCE_SCATTER && t->op != 0)
			continue;
		if (t->op == REDOP && formats[t->type].bits == 8 && formats[t->type].exponent && n > 2)
			continue;
		++*at;
		return (1);
	}
}

static void run_rank(struct rank *r)
{
	struct trial t;
	int n, dev, rank;

	open_rank(r);
	NOK(ncclCommCount(r->comm, &n));
	NOK(ncclCommUserRank(r->comm, &rank));
	NOK(ncclCommCuDevice(r->comm, &dev));
	HOLDS(n == r->ranks && rank == r->rank && dev == r->rank);
	for (int at = 0; next_trial(&t, &at, r->ranks);) {
		prepare_trial(r, &t);
		issue_trial(r, &t);
		verify_trial(r, &t);
	}
	NOK(ncclCommDestroy(r->comm));
}

/* All ranks are devices of a single thread, which issues for all of them in a group. */
static void all_of(struct rank *lead)
{
	const int n = lead->ranks;
	struct rank r[MOST_RANKS] = { 0 };
	ncclComm_t comms[MOST_RANKS];
	struct trial t;

	for (int i = 0; i < n; ++i) {
		r[i] = (struct rank){ .rank = i, .ranks = n };
		open_device(&r[i], i);
	}
	NOK(ncclCommInitAll(comms, n, NULL));
	for (int i = 0; i < n; ++i)
		r[i].comm = comms[i];
	for (int at = 0; next_trial(&t, &at, n);) {
		for (int i = 0; i < n; ++i)
			prepare_trial(&r[i], &t);
		NOK(ncclGroupStart());
		for (int i = 0; i < n; ++i)
			issue_trial(&r[i], &t);
		NOK(ncclGroupEnd());
		for (int i = 0; i < n; ++i)
			verify_trial(&r[i], &t);
	}
	for (int i = 0; i < n; ++i)
		NOK(ncclCommDestroy(comms[i]));
}

static int devices;

static void run_alone(struct rank *r)
{
	r->ranks = devices;
	all_of(r);
}

int main(void)
{
	for (int n = 1; n <= MOST_RANKS; n *= 2)
		as_processes(n, run_rank);
	puts("processes: 1, 2, 4 ranks");
	fflush(stdout);
	for (int n = 1; n <= MOST_RANKS; n *= 2)
		as_threads(n, run_rank);
	puts("threads: 1, 2, 4 ranks");
	fflush(stdout);
	for (devices = 1; devices <= MOST_RANKS; devices *= 2)
		as_processes(1, run_alone);
	puts("devices of one thread: 1, 2, 4 ranks");
	return (0);
}
