// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * A libnccl.so.2 for tests, in the same file as the driver. The members of a communicator, threads or processes, find each other by
 * a file of shared memory that the unique id names. Everything is made of messages, which pass through that; an operation is
 * work of a stream, and looks at the device's memory as kernels do. Sums are made in turn, in the order of ranks.
 */
#include "fake.h"
#include "../../nccl/nccl.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { NCCL_OK, CUDA_ERROR, SYSTEM_ERROR, INTERNAL_ERROR, INVALID_ARGUMENT, INVALID_USAGE, REMOTE_ERROR, IN_PROGRESS };
enum { MEMBERS = 8, PIECE = 4096, FACTORS = 16, FIRST_FACTOR = 5, F32 = 7, I32 = 2 };

/* Shared by members. A pipe leads from a member to another, and has a piece or is empty. */
struct pipe {
	size_t n;
	unsigned char bytes[PIECE];
};

struct world {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int ready, come, left, aborted;
	struct pipe pipes[MEMBERS][MEMBERS];
};

struct ncclComm {
	struct world *world;
	int rank, ranks, device, issued;
	int finalized;
	float factors[FACTORS];
	int nfactors;
};

struct part {
	int kind, type, op, peer;
	size_t n;
	const unsigned char *src;
	unsigned char *dst;
	float factor;
};

struct batch {
	ncclComm_t comm;
	CUstream stream;
	struct part parts[64];
	int n;
};

static __thread struct batch group;
static __thread int depth;
static const size_t sizes[] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1 };

#define NCCL(form, ...) \
	do { \
		CUresult told; \
		if (fake_enter(__func__, &told, form, ##__VA_ARGS__)) \
			return (told); \
	} while (0)

ncclResult_t ncclGetVersion(int *version)
{
	NCCL("");
	*version = 22803;
	return (NCCL_OK);
}

const char *ncclGetErrorString(ncclResult_t r)
{
	return (r == REMOTE_ERROR ? "remote process exited or there was a network error" : r == INVALID_USAGE ? "invalid usage" : "error");
}

const char *ncclGetLastError(ncclComm_t comm)
{
	(void)comm;
	return ("");
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
	struct timespec t;

	NCCL("");
	clock_gettime(CLOCK_MONOTONIC, &t);
	memset(id, 0, sizeof(*id));
	snprintf(id->internal, sizeof(id->internal), "/fakenccl-%d-%d-%ld", (int)getpid(), fake_number(RESERVATIONS), (long)t.tv_nsec);
	return (NCCL_OK);
}

static struct world *world_of(const char *name)
{
	struct world *w;
	bool first = true;
	int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);

	if (fd < 0 && errno == EEXIST) {
		first = false;
		fd = shm_open(name, O_RDWR, 0600);
	}
	if (fd < 0 || ftruncate(fd, sizeof(*w)))
		return (NULL);
	w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (w == MAP_FAILED)
		return (NULL);
	if (first) {
		pthread_mutexattr_t shared;
		pthread_condattr_t too;

		pthread_mutexattr_init(&shared);
		pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
		pthread_mutex_init(&w->lock, &shared);
		pthread_condattr_init(&too);
		pthread_condattr_setpshared(&too, PTHREAD_PROCESS_SHARED);
		pthread_cond_init(&w->changed, &too);
		__atomic_store_n(&w->ready, 1, __ATOMIC_SEQ_CST);
	}
	while (!__atomic_load_n(&w->ready, __ATOMIC_SEQ_CST))
		sched_yield();
	return (w);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, struct sing_nccl_config *config)
{
	ncclComm_t c;

	NCCL(" rank %d of %d, blocking %d", rank, ranks, config ? config->blocking : 1);
	if (!current_context())
		return (CUDA_ERROR);
	if (rank < 0 || rank >= ranks || ranks > MEMBERS || (config && (config->magic != SING_NCCL_MAGIC || config->blocking)))
		return (INVALID_ARGUMENT);
	c = calloc(1, sizeof(*c));
	c->rank = rank;
	c->ranks = ranks;
	c->device = current_context()->device;
	c->world = world_of(id.internal);
	if (!c->world)
		abort();
	fake_count(c, COMMS, 1);
	pthread_mutex_lock(&c->world->lock);
	if (++c->world->come == ranks)
		shm_unlink(id.internal);
	pthread_cond_broadcast(&c->world->changed);
	pthread_mutex_unlock(&c->world->lock);
	*comm = c;
	return (IN_PROGRESS);
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
	ncclResult_t r = ncclCommInitRankConfig(comm, ranks, id, rank, NULL);

	if (r != IN_PROGRESS)
		return (r);
	pthread_mutex_lock(&(*comm)->world->lock);
	while ((*comm)->world->come < ranks)
		pthread_cond_wait(&(*comm)->world->changed, &(*comm)->world->lock);
	pthread_mutex_unlock(&(*comm)->world->lock);
	return (NCCL_OK);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
	struct world *w = comm->world;

	pthread_mutex_lock(&w->lock);
	*error = w->aborted ? REMOTE_ERROR : w->come < comm->ranks ? IN_PROGRESS : NCCL_OK;
	pthread_mutex_unlock(&w->lock);
	if (!*error && comm->finalized && __atomic_load_n(&comm->issued, __ATOMIC_SEQ_CST))
		*error = IN_PROGRESS;
	return (NCCL_OK);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
	NCCL(" rank %d", comm->rank);
	comm->finalized = 1;
	return (IN_PROGRESS);
}

static void end_comm(ncclComm_t c)
{
	/* The stream's thread may still look at the memory. */
	while (__atomic_load_n(&c->issued, __ATOMIC_SEQ_CST))
		sched_yield();
	munmap(c->world, sizeof(*c->world));
	free(fake_count(c, COMMS, -1));
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	CUresult told = 0;

	fake_enter(__func__, &told, " rank %d", comm->rank);
	end_comm(comm);
	return (told);
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
	CUresult told = 0;

	fake_enter(__func__, &told, " rank %d", comm->rank);
	pthread_mutex_lock(&comm->world->lock);
	comm->world->aborted = 1;
	pthread_cond_broadcast(&comm->world->changed);
	pthread_mutex_unlock(&comm->world->lock);
	end_comm(comm);
	return (told);
}

/* Messages that are sent and received at the same time. Each member has at most a message with each other member, each way. */
struct message {
	int peer;
	bool sends;
	unsigned char *at;
	size_t left;
};

static bool move_piece(struct world *w, int rank, struct message *m)
{
	struct pipe *p = m->sends ? &w->pipes[rank][m->peer] : &w->pipes[m->peer][rank];
	size_t n = m->left < PIECE ? m->left : PIECE;

	if (!m->left || (m->sends ? p->n != 0 : p->n == 0))
		return (false);
	if (m->sends) {
		memcpy(p->bytes, m->at, n);
		p->n = n;
	} else {
		n = p->n < n ? p->n : n;
		memcpy(m->at, p->bytes, n);
		p->n = 0;
	}
	m->at += n;
	m->left -= n;
	return (true);
}

static int pass_messages(ncclComm_t c, struct message *all, int n)
{
	struct world *w = c->world;
	bool moved, left;

	pthread_mutex_lock(&w->lock);
	for (;;) {
		moved = left = false;
		for (int i = 0; i < n; ++i) {
			bool busy = false;

			/* Two of a single pair keep their order. */
			for (int k = 0; k < i; ++k)
				busy |= all[k].left && all[k].peer == all[i].peer && all[k].sends == all[i].sends;
			moved |= !busy && move_piece(w, c->rank, &all[i]);
			left |= all[i].left != 0;
		}
		if (!left || w->aborted)
			break;
		if (moved)
			pthread_cond_broadcast(&w->changed);
		else
			pthread_cond_wait(&w->changed, &w->lock);
	}
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
	return (w->aborted);
}

static void combine_bytes(unsigned char *sum, const unsigned char *more, size_t n, const struct part *p)
{
	for (size_t i = 0; i < n; ++i) {
		if (p->type == F32) {
			float *a = (float *)sum + i, b = ((const float *)more)[i];

			*a = p->op == 2 ? (*a > b ? *a : b) : *a + b;
		} else {
			int32_t *a = (int32_t *)sum + i, b = ((const int32_t *)more)[i];

			*a = p->op == 2 ? (*a > b ? *a : b) : *a + b;
		}
	}
}

/* Everybody's vector to everybody, by rank. */
static int gather_all(ncclComm_t c, const unsigned char *src, size_t n, unsigned char *all)
{
	struct message m[2 * MEMBERS];
	int k = 0;

	memcpy(all + n * c->rank, src, n);
	for (int r = 0; r < c->ranks; ++r) {
		if (r == c->rank)
			continue;
		m[k++] = (struct message){ r, true, all + n * c->rank, n };
		m[k++] = (struct message){ r, false, all + n * r, n };
	}
	return (pass_messages(c, m, k));
}

static int run_collective(ncclComm_t c, const struct part *p)
{
	size_t one = p->n * sizes[p->type], n = p->kind == REDUCE_SCATTER ? one * c->ranks : one;
	unsigned char *all = malloc(n * c->ranks + 1), *mine = malloc(n + 1);
	int gone;

	memset(mine, 0, n);
	if (p->kind != BROADCAST || c->rank == p->peer)
		memcpy(mine, p->src, n);
	if (p->op >= FIRST_FACTOR)
		for (size_t i = 0; i < n / sizeof(float); ++i)
			((float *)mine)[i] *= p->factor;
	gone = gather_all(c, mine, n, all);
	if (!gone && p->kind == ALL_GATHER)
		memcpy(p->dst, all, n * c->ranks);
	if (!gone && p->kind == BROADCAST)
		memcpy(p->dst, all + n * p->peer, n);
	if (!gone && p->kind <= REDUCE_SCATTER) {
		for (int r = 1; r < c->ranks; ++r)
			combine_bytes(all, all + n * r, n / sizes[p->type], p);
		if (p->op == 4 && p->type == F32)
			for (size_t i = 0; i < n / sizeof(float); ++i)
				((float *)all)[i] /= c->ranks;
		if (p->kind != REDUCE || c->rank == p->peer)
			memcpy(p->dst, p->kind == REDUCE_SCATTER ? all + one * c->rank : all, one);
	}
	free(all);
	free(mine);
	return (gone);
}

static bool is_seen(ncclComm_t c, const void *at, size_t n)
{
	return (!n || device_reaches(c->device, (uint64_t)at, n));
}

static bool is_reachable(ncclComm_t c, const struct part *p)
{
	size_t n = p->n * sizes[p->type];
	size_t from = p->kind == RECV || (p->kind == BROADCAST && c->rank != p->peer) ? 0 : p->kind == REDUCE_SCATTER ? n * c->ranks : n;
	size_t to = p->kind == SEND || (p->kind == REDUCE && c->rank != p->peer) ? 0 : p->kind == ALL_GATHER ? n * c->ranks : n;

	return (is_seen(c, p->src, from) && is_seen(c, p->dst, to));
}

static int run_batch(struct op *o, CUcontext ctx)
{
	struct batch *b = o->more;
	struct message m[64];
	int k = 0;

	(void)ctx;
	for (int i = 0; i < b->n; ++i) {
		struct part *p = &b->parts[i];

		if (!is_reachable(b->comm, p))
			return (ILLEGAL_ADDRESS);
		if (p->kind >= SEND)
			m[k++] = (struct message){ p->peer, p->kind == SEND, p->kind == SEND ? (unsigned char *)p->src : p->dst, p->n * sizes[p->type] };
	}
	if (k && pass_messages(b->comm, m, k))
		return (0);
	for (int i = 0; i < b->n; ++i)
		if (b->parts[i].kind < SEND && run_collective(b->comm, &b->parts[i]))
			break;
	return (0);
}

static void end_batch(struct op *o)
{
	struct batch *b = o->more;

	__atomic_sub_fetch(&b->comm->issued, 1, __ATOMIC_SEQ_CST);
	free(b);
}

static ncclResult_t flush_group(void)
{
	struct batch *b;
	struct op *o;

	if (!group.n)
		return (NCCL_OK);
	b = malloc(sizeof(*b));
	*b = group;
	group.n = 0;
	o = new_op(run_batch);
	o->more = b;
	o->end = end_batch;
	__atomic_add_fetch(&b->comm->issued, 1, __ATOMIC_SEQ_CST);
	push(b->stream, o);
	return (IN_PROGRESS);
}

ncclResult_t ncclGroupStart(void)
{
	NCCL("");
	++depth;
	return (NCCL_OK);
}

ncclResult_t ncclGroupEnd(void)
{
	ncclResult_t r;

	if (--depth)
		return (NCCL_OK);
	r = flush_group();
	NCCL("");
	return (r);
}

static ncclResult_t add_part(ncclComm_t comm, struct part p, void *stream)
{
	CUstream s = stream;

	if (!current_context() || current_context()->device != comm->device || s->ctx != current_context())
		return (INVALID_USAGE);
	if (p.type != F32 && p.type != I32 && p.kind <= REDUCE_SCATTER)
		return (INVALID_ARGUMENT);
	if (group.n == 64 || (group.n && group.comm != comm))
		return (INVALID_USAGE);
	if (p.op >= FIRST_FACTOR)
		p.factor = comm->factors[p.op - FIRST_FACTOR];
	group.comm = comm;
	group.stream = s;
	group.parts[group.n++] = p;
	return (depth ? NCCL_OK : flush_group());
}

ncclResult_t ncclAllReduce(const void *src, void *dst, size_t n, int type, int op, ncclComm_t comm, void *stream)
{
	NCCL(" rank %d: %zu of type %d, op %d", comm->rank, n, type, op);
	return (add_part(comm, (struct part){ ALL_REDUCE, type, op, 0, n, src, dst, 0 }, stream));
}

ncclResult_t ncclReduce(const void *src, void *dst, size_t n, int type, int op, int root, ncclComm_t comm, void *stream)
{
	NCCL(" rank %d: %zu of type %d, op %d, root %d", comm->rank, n, type, op, root);
	return (add_part(comm, (struct part){ REDUCE, type, op, root, n, src, dst, 0 }, stream));
}

ncclResult_t ncclReduceScatter(const void *src, void *dst, size_t n, int type, int op, ncclComm_t comm, void *stream)
{
	NCCL(" rank %d: %zu of type %d, op %d", comm->rank, n, type, op);
	return (add_part(comm, (struct part){ REDUCE_SCATTER, type, op, 0, n, src, dst, 0 }, stream));
}

ncclResult_t ncclBroadcast(const void *src, void *dst, size_t n, int type, int root, ncclComm_t comm, void *stream)
{
	NCCL(" rank %d: %zu of type %d, root %d", comm->rank, n, type, root);
	return (add_part(comm, (struct part){ BROADCAST, type, 0, root, n, src, dst, 0 }, stream));
}

ncclResult_t ncclAllGather(const void *src, void *dst, size_t n, int type, ncclComm_t comm, void *stream)
{
	NCCL(" rank %d: %zu of type %d", comm->rank, n, type);
	return (add_part(comm, (struct part){ ALL_GATHER, type, 0, 0, n, src, dst, 0 }, stream));
}

ncclResult_t ncclSend(const void *src, size_t n, int type, int peer, ncclComm_t comm, void *stream)
{
	NCCL(" rank %d: %zu of type %d to %d", comm->rank, n, type, peer);
	return (add_part(comm, (struct part){ SEND, type, 0, peer, n, src, NULL, 0 }, stream));
}

ncclResult_t ncclRecv(void *dst, size_t n, int type, int peer, ncclComm_t comm, void *stream)
{
	NCCL(" rank %d: %zu of type %d from %d", comm->rank, n, type, peer);
	return (add_part(comm, (struct part){ RECV, type, 0, peer, n, NULL, dst, 0 }, stream));
}

ncclResult_t ncclRedOpCreatePreMulSum(int *op, void *scalar, int type, int residence, ncclComm_t comm)
{
	NCCL(" rank %d: type %d, residence %d", comm->rank, type, residence);
	if (type != F32 || residence != 1 || comm->nfactors == FACTORS)
		return (INVALID_ARGUMENT);
	memcpy(&comm->factors[comm->nfactors], scalar, sizeof(float));
	*op = FIRST_FACTOR + comm->nfactors++;
	return (NCCL_OK);
}

ncclResult_t ncclRedOpDestroy(int op, ncclComm_t comm)
{
	NCCL(" rank %d: op %d", comm->rank, op);
	if (op == FIRST_FACTOR + comm->nfactors - 1)
		--comm->nfactors;
	return (NCCL_OK);
}
