// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * This program trains no model. It tries the ways in which work can be ordered: threads with streams of their own, events
 * between all of them, memory that is allocated in a stream, a captured graph, a graph built node by node, values written and
 * waited for, functions of the host. A kernel of the captured graph gets other parameters before each launch, and sometimes the
 * whole graph is updated. With several ranks the captured graph adds a square of all ranks. A step is
 *
 *	main      begin ─┬────────────────────────┬─ graphs ─ write ──────┬─ host function ─ copy to the host
 *	worker i         └─ a ─┬─ a ─────┬─ a ────┘           └ wait ─ side ┘
 *	                       └─ b ─────┘
 *
 * The same work is then done on copies in a single stream, call by call, and must have the same results.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"
#include "layers.h"

enum { WORKERS = 3, SIDE = 48, N = SIDE * SIDE, BYTES = 4 * N };

struct all;

struct worker {
	struct all *all;
	int number;
	pthread_t id;
	struct rank a, b; /* the rank, with other streams */
	CUevent forked, joined, done;
	CUdeviceptr square;
};

struct all {
	struct rank *r;
	CUdeviceptr p; /* WORKERS squares, which are hashed */
	CUdeviceptr noise, product, sum, ones, flag;
	float *host;
	struct rank side; /* the rank, with another stream */
	CUevent begin, end, forked, joined;
	CUgraphExec captured, built;
	CUgraphNode fill;
	struct worker workers[WORKERS];
	pthread_barrier_t barrier;
	int step;
	unsigned long long called; /* a number that count_step makes of the steps at which it was called */
	CUdeviceptr plain;         /* the values that p must have */
	unsigned long long plainly_called; /* the value that called must have */
};

static CUdeviceptr square_at(const struct all *s, int i)
{
	return (s->p + (CUdeviceptr)(i * BYTES));
}

static void fill_square(struct rank *r, CUdeviceptr p, uint32_t seed)
{
	unsigned n = N;
	float scale = 0.25f, shift = 0;

	over(r, K_fill_uniform, N, (void *[]){ &p, &n, &seed, &scale, &shift });
}

static void multiply_squares(struct rank *r, CUdeviceptr c, CUdeviceptr a, CUdeviceptr b)
{
	gemm(r, (struct gemm){
		.a = a, .b = b, .c = c, .m = SIDE, .n = SIDE, .k = SIDE, .ars = SIDE, .acs = 1, .brs = SIDE, .bcs = 1, .crs = SIDE, .alpha = 0.2f,
	});
}

/* The seed of a step and its part; ranks differ. */
static uint32_t seed_of(const struct all *s, int what)
{
	return (s->r->o->seed * 7919 + (uint32_t)((s->step * s->r->ranks + s->r->rank) * 8 + what));
}

static void run_work(struct worker *w)
{
	struct all *s = w->all;
	CUdeviceptr tmp, mine = square_at(s, w->number);

	CU(cuStreamWaitEvent(w->a.stream, s->begin, 0));
	CU(cuMemAllocAsync(&tmp, BYTES, w->a.stream));
	fill_square(&w->a, tmp, seed_of(s, w->number));
	CU(cuEventRecord(w->forked, w->a.stream));
	CU(cuStreamWaitEvent(w->b.stream, w->forked, 0));
	multiply_squares(&w->b, w->square, tmp, mine);
	CU(cuEventRecord(w->joined, w->b.stream));
	CU(cuStreamWaitEvent(w->a.stream, w->joined, 0));
	sum_of(&w->a, tmp, tmp, w->square, N);
	mix(&w->a, mine, tmp, N, 0.875f, 0.125f);
	CU(cuMemFreeAsync(tmp, w->a.stream));
	CU(cuEventRecord(w->done, w->a.stream));
}

/* A step begins and ends at the barrier, until a step is 0. */
static void *worker_main(void *arg)
{
	struct worker *w = arg;

	CU(cuCtxSetCurrent(w->all->r->ctx));
	for (;;) {
		pthread_barrier_wait(&w->all->barrier);
		if (w->all->step == 0)
			return (NULL);
		run_work(w);
		pthread_barrier_wait(&w->all->barrier);
	}
}

static CUgraph capture_step(struct all *s)
{
	struct rank *r = s->r;
	CUstreamCaptureStatus status;
	CUgraph graph;

	CU(cuStreamBeginCapture(r->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	fill_square(r, s->noise, seed_of(s, WORKERS));
	CU(cuEventRecord(s->forked, r->stream));
	CU(cuStreamWaitEvent(s->side.stream, s->forked, 0));
	CU(cuStreamIsCapturing(s->side.stream, &status));
	if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		fail("a stream that waits for one that is captured is captured");
	multiply_squares(&s->side, s->product, s->noise, square_at(s, 0));
	CU(cuEventRecord(s->joined, s->side.stream));
	over(r, K_tanh_of_sum, N, (void *[]){ &s->sum, &s->noise, &(CUdeviceptr){ square_at(s, 1) }, &(unsigned){ N } });
	CU(cuStreamWaitEvent(r->stream, s->joined, 0));
	mix(r, square_at(s, 2), s->product, N, 0.5f, 0.5f);
	mix(r, square_at(s, 2), s->sum, N, 1, 0.25f);
	if (r->world != NULL) {
		NCCL(AllReduce((void *)square_at(s, 2), (void *)square_at(s, 2), N, ncclFloat, ncclSum, r->world, r->stream));
		mix(r, square_at(s, 2), square_at(s, 2), N, 0, 1.0f / (float)r->ranks);
	}
	CU(cuStreamEndCapture(r->stream, &graph));
	return (graph);
}

/* Find the node that fills s->noise: the only node of its kernel. */
static CUgraphNode find_fill(struct all *s, CUgraph graph)
{
	CUgraphNode nodes[32];
	CUDA_KERNEL_NODE_PARAMS params;
	CUgraphNodeType type;
	size_t n = 0;

	CU(cuGraphGetNodes(graph, NULL, &n));
	if (n > 32)
		fail("%zu nodes are more than were captured", n);
	CU(cuGraphGetNodes(graph, nodes, &n));
	for (size_t i = 0; i < n; ++i) {
		CU(cuGraphNodeGetType(nodes[i], &type));
		if (type != CU_GRAPH_NODE_TYPE_KERNEL)
			continue;
		CU(cuGraphKernelNodeGetParams(nodes[i], &params));
		if (params.func == s->r->kernels[K_fill_uniform])
			return (nodes[i]);
	}
	fail("the node is not there");
}

static void count_step(void *user)
{
	struct all *s = user;

	s->called = s->called * 31 + (unsigned long long)s->step;
}

/* ones = 1 everywhere; square 0 += ones / 64 and square 1 is copied to sum, then a function of the host. */
static CUgraph build_step(struct all *s)
{
	CUdeviceptr first = square_at(s, 0);
	unsigned n = N;
	float a = 1, b = 1.0f / 64;
	void *args[] = { &first, &s->ones, &n, &a, &b };
	CUDA_MEMSET_NODE_PARAMS set = { .dst = s->ones, .value = 0x3f800000, .elementSize = 4, .width = N, .height = 1 };
	CUDA_KERNEL_NODE_PARAMS kernel = {
		.func = s->r->kernels[K_mix], .gridDimX = (N + 127) / 128, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 128, .blockDimY = 1,
		.blockDimZ = 1, .kernelParams = args,
	};
	CUDA_MEMCPY3D copy = {
		.srcType = CU_MEMORYTYPE_DEVICE, .srcDevice = square_at(s, 1), .srcPitch = BYTES, .srcHeight = 1,
		.dstType = CU_MEMORYTYPE_DEVICE, .dstDevice = s->sum, .dstPitch = BYTES, .dstHeight = 1, .width = BYTES, .height = 1, .depth = 1,
	};
	CUDA_HOST_NODE_PARAMS host = { .fn = count_step, .userData = s };
	CUgraphNode memset_node, ends[2], host_node;
	CUgraph graph;

	CU(cuGraphCreate(&graph, 0));
	CU(cuGraphAddMemsetNode(&memset_node, graph, NULL, 0, &set, s->r->ctx));
	CU(cuGraphAddKernelNode(&ends[0], graph, &memset_node, 1, &kernel));
	CU(cuGraphAddMemcpyNode(&ends[1], graph, NULL, 0, &copy, s->r->ctx));
	CU(cuGraphAddHostNode(&host_node, graph, ends, 2, &host));
	return (graph);
}

/* Graphs of a step: the captured graph with this step's seed, captured again every fourth time. */
static void launch_graphs(struct all *s)
{
	struct rank *r = s->r;

	if (s->step % 4 == 0) {
		CUgraph again = capture_step(s);
		CUgraphExecUpdateResultInfo info;

		CU(cuGraphExecUpdate(s->captured, again, &info));
		CU(cuGraphDestroy(again));
	} else {
		unsigned n = N;
		float scale = 0.25f, shift = 0;
		uint32_t seed = seed_of(s, WORKERS);
		void *args[] = { &s->noise, &n, &seed, &scale, &shift };
		CUDA_KERNEL_NODE_PARAMS kernel = {
			.func = r->kernels[K_fill_uniform], .gridDimX = (N + 127) / 128, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 128,
			.blockDimY = 1, .blockDimZ = 1, .kernelParams = args,
		};

		CU(cuGraphExecKernelNodeSetParams(s->captured, s->fill, &kernel));
	}
	CU(cuGraphLaunch(s->captured, r->stream));
	CU(cuGraphLaunch(s->built, r->stream));
}

static void run_step(struct all *s)
{
	struct rank *r = s->r;
	float milliseconds;

	CU(cuEventRecord(s->begin, r->stream));
	pthread_barrier_wait(&s->barrier);
	pthread_barrier_wait(&s->barrier);
	for (int i = 0; i < WORKERS; ++i)
		CU(cuStreamWaitEvent(r->stream, s->workers[i].done, 0));
	launch_graphs(s);
	CU(cuStreamWriteValue32(r->stream, s->flag, (cuuint32_t)s->step, 0));
	CU(cuStreamWaitValue32(s->side.stream, s->flag, (cuuint32_t)s->step, CU_STREAM_WAIT_VALUE_GEQ));
	mix(&s->side, square_at(s, 1), s->sum, N, 0.5f, 0.5f);
	CU(cuEventRecord(s->joined, s->side.stream));
	CU(cuStreamWaitEvent(r->stream, s->joined, 0));
	CU(cuLaunchHostFunc(r->stream, count_step, s));
	CU(cuMemcpyDtoHAsync(s->host, s->p, WORKERS * BYTES, r->stream));
	CU(cuEventRecord(s->end, r->stream));
	CU(cuEventSynchronize(s->end));
	CU(cuEventElapsedTime(&milliseconds, s->begin, s->end));
	if (!(milliseconds >= 0))
		fail("a step took %f ms", (double)milliseconds);
}

/* The step without graphs, events and threads. */
static void plain_step(struct all *s)
{
	struct rank *r = s->r;
	CUdeviceptr q[WORKERS];

	for (int i = 0; i < WORKERS; ++i) {
		q[i] = s->plain + (CUdeviceptr)(i * BYTES);
		fill_square(r, s->noise, seed_of(s, i));
		multiply_squares(r, s->product, s->noise, q[i]);
		sum_of(r, s->noise, s->noise, s->product, N);
		mix(r, q[i], s->noise, N, 0.875f, 0.125f);
	}
	fill_square(r, s->noise, seed_of(s, WORKERS));
	multiply_squares(r, s->product, s->noise, q[0]);
	over(r, K_tanh_of_sum, N, (void *[]){ &s->sum, &s->noise, &q[1], &(unsigned){ N } });
	mix(r, q[2], s->product, N, 0.5f, 0.5f);
	mix(r, q[2], s->sum, N, 1, 0.25f);
	if (r->world != NULL) {
		NCCL(AllReduce((void *)q[2], (void *)q[2], N, ncclFloat, ncclSum, r->world, r->stream));
		mix(r, q[2], q[2], N, 0, 1.0f / (float)r->ranks);
	}
	CU(cuMemsetD32Async(s->ones, 0x3f800000, N, r->stream));
	mix(r, q[0], s->ones, N, 1, 1.0f / 64);
	CU(cuMemcpyDtoDAsync(s->sum, q[1], BYTES, r->stream));
	mix(r, q[1], s->sum, N, 0.5f, 0.5f);
	for (int i = 0; i < 2; ++i)
		s->plainly_called = s->plainly_called * 31 + (unsigned long long)s->step;
}

/* Compare the results of run_step and of plain_step. Returns a hash of them. */
static uint64_t compare_ways(struct all *s)
{
	uint64_t h = hash_bytes(HASH_BEGIN, s->host, WORKERS * BYTES), plain;

	plain_step(s);
	CU(cuMemcpyDtoHAsync(s->host, s->plain, WORKERS * BYTES, s->r->stream));
	CU(cuStreamSynchronize(s->r->stream));
	plain = hash_bytes(HASH_BEGIN, s->host, WORKERS * BYTES);
	if (plain != h)
		fail("step %d: %016llx, but %016llx call by call", s->step, (unsigned long long)h, (unsigned long long)plain);
	if (s->called != s->plainly_called)
		fail("step %d: the host's functions were not called once each", s->step);
	return (hash_bytes(h, &s->called, sizeof(s->called)));
}

static void make_all(struct all *s, struct rank *r)
{
	CUgraph graph;

	memset(s, 0, sizeof(*s));
	s->r = r;
	s->p = floats(WORKERS * N);
	s->plain = floats(WORKERS * N);
	s->noise = floats(N);
	s->product = floats(N);
	s->sum = floats(N);
	s->ones = floats(N);
	s->flag = floats(1);
	CU(cuMemAllocHost((void **)&s->host, WORKERS * BYTES));
	s->side = *r;
	CU(cuStreamCreateWithPriority(&s->side.stream, CU_STREAM_NON_BLOCKING, 0));
	CU(cuEventCreate(&s->begin, CU_EVENT_DEFAULT));
	CU(cuEventCreate(&s->end, CU_EVENT_DEFAULT));
	CU(cuEventCreate(&s->forked, CU_EVENT_DISABLE_TIMING));
	CU(cuEventCreate(&s->joined, CU_EVENT_DISABLE_TIMING));
	pthread_barrier_init(&s->barrier, NULL, WORKERS + 1);
	for (int i = 0; i < WORKERS; ++i) {
		struct worker *w = &s->workers[i];

		w->all = s;
		w->number = i;
		w->a = w->b = *r;
		w->square = floats(N);
		CU(cuStreamCreate(&w->a.stream, CU_STREAM_NON_BLOCKING));
		CU(cuStreamCreate(&w->b.stream, CU_STREAM_NON_BLOCKING));
		CU(cuEventCreate(&w->forked, CU_EVENT_DISABLE_TIMING));
		CU(cuEventCreate(&w->joined, CU_EVENT_DISABLE_TIMING));
		CU(cuEventCreate(&w->done, CU_EVENT_DISABLE_TIMING));
		if (pthread_create(&w->id, NULL, worker_main, w) != 0)
			fail("cannot start a thread");
	}
	graph = capture_step(s);
	s->fill = find_fill(s, graph);
	/* The graph is not destroyed: its node names the node in the executable graph. */
	CU(cuGraphInstantiate(&s->captured, graph, 0));
	graph = build_step(s);
	CU(cuGraphInstantiate(&s->built, graph, 0));
	CU(cuGraphDestroy(graph));
}

static void stop_workers(struct all *s)
{
	s->step = 0;
	pthread_barrier_wait(&s->barrier);
	for (int i = 0; i < WORKERS; ++i) {
		struct worker *w = &s->workers[i];

		pthread_join(w->id, NULL);
		CU(cuStreamDestroy(w->a.stream));
		CU(cuStreamDestroy(w->b.stream));
		CU(cuEventDestroy(w->done));
	}
	CU(cuGraphExecDestroy(s->captured));
	CU(cuGraphExecDestroy(s->built));
	CU(cuMemFreeHost(s->host));
	CU(cuMemFree(s->p));
}

static void run_streams(struct rank *r)
{
	struct all s;

	make_all(&s, r);
	for (int step = 1; r->o->steps == 0 || step <= r->o->steps; ++step) {
		uint64_t hashes[r->ranks];

		s.step = step;
		run_step(&s);
		gather_hashes(r, compare_ways(&s), hashes);
		print_step(r, step, 0, hash_bytes(HASH_BEGIN, hashes, sizeof(hashes)));
		wait_at_mark(r, step, step == r->o->steps);
	}
	stop_workers(&s);
}

int main(int argc, char **argv)
{
	return (run_ranks(argc, argv, 20, run_streams));
}
