// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "nccl.h"

static const struct {
	const char *name;
	size_t at;
	int optional;
} calls[] = {
#define CALL(name, result, arguments, optional) { #name, offsetof(struct sing_nccl, name), optional },
	SING_NCCL_CALLS(CALL)
};

int sing_nccl_open(struct sing_nccl *n, const char *path, char *why, size_t room)
{
	void *found, *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	memset(n, 0, sizeof(*n));
	if (!lib) {
		snprintf(why, room, "%s", dlerror());
		return (-1);
	}
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); ++i) {
		found = dlsym(lib, calls[i].name);
		if (!found && !calls[i].optional) {
			snprintf(why, room, "%s has no %s: it is too old", path, calls[i].name);
			dlclose(lib);
			return (-1);
		}
		memcpy((char *)n + calls[i].at, &found, sizeof(found));
	}

	return (0);
}

const char *sing_nccl_error(const struct sing_nccl *n, ncclResult_t r)
{
	return (n->ncclGetErrorString(r));
}

const char *sing_nccl_last(const struct sing_nccl *n, ncclComm_t comm)
{
	const char *text = n->ncclGetLastError ? n->ncclGetLastError(comm) : NULL;

	return (text ? text : "");
}

ncclResult_t sing_nccl_version(const struct sing_nccl *n, int *version)
{
	return (n->ncclGetVersion(version));
}

ncclResult_t sing_nccl_id(const struct sing_nccl *n, void *id)
{
	return (n->ncclGetUniqueId(id));
}

ncclResult_t sing_nccl_destroy(const struct sing_nccl *n, ncclComm_t comm)
{
	return (n->ncclCommDestroy(comm));
}

ncclResult_t sing_nccl_abort(const struct sing_nccl *n, ncclComm_t comm)
{
	return (n->ncclCommAbort(comm));
}

ncclResult_t sing_nccl_init(const struct sing_nccl *n, ncclComm_t *comm, int ranks, const void *id, int rank)
{
	struct sing_nccl_config config = { sizeof(config), SING_NCCL_MAGIC, SING_NCCL_CONFIG, 0 };
	ncclUniqueId u;

	memcpy(&u, id, sizeof(u));
	if (!n->ncclCommInitRankConfig)
		return (n->ncclCommInitRank(comm, ranks, u, rank));
	return (n->ncclCommInitRankConfig(comm, ranks, u, rank, &config));
}

ncclResult_t sing_nccl_finalize(const struct sing_nccl *n, ncclComm_t comm)
{
	return (n->ncclCommFinalize ? n->ncclCommFinalize(comm) : 0);
}

ncclResult_t sing_nccl_state(const struct sing_nccl *n, ncclComm_t comm)
{
	ncclResult_t state = 0, r = n->ncclCommGetAsyncError(comm, &state);

	return (r ? r : state);
}

/* Bytes of one element, by the number of its type. */
static const size_t sizes[] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1 };

/* A rank's part of an operation that older libraries have no call for: messages, also to itself. */
static ncclResult_t send_pieces(const struct sing_nccl *n, ncclComm_t comm, const struct sing_nccl_op *o, int rank, int ranks,
				void *stream)
{
	size_t one = o->count * sizes[o->type];
	ncclResult_t r = 0;

	if (o->kind == GATHER)
		r = n->ncclSend((void *)o->src, o->count, o->type, o->root, comm, stream);
	if (o->kind == SCATTER)
		r = n->ncclRecv((void *)o->dst, o->count, o->type, o->root, comm, stream);
	for (int peer = 0; peer < ranks && !r; ++peer) {
		if (o->kind == ALL_TO_ALL || (o->kind == SCATTER && rank == o->root))
			r = n->ncclSend((char *)o->src + one * (size_t)peer, o->count, o->type, peer, comm, stream);
		if (!r && (o->kind == ALL_TO_ALL || (o->kind == GATHER && rank == o->root)))
			r = n->ncclRecv((char *)o->dst + one * (size_t)peer, o->count, o->type, peer, comm, stream);
	}

	return (r);
}

static ncclResult_t issue_op(const struct sing_nccl *n, ncclComm_t comm, const struct sing_nccl_op *o, int op, int rank, int ranks,
			     void *stream)
{
	const void *src = (void *)o->src;
	void *dst = (void *)o->dst;

	switch (o->kind) {
	case ALL_REDUCE:
		return (n->ncclAllReduce(src, dst, o->count, o->type, op, comm, stream));
	case REDUCE:
		return (n->ncclReduce(src, dst, o->count, o->type, op, o->root, comm, stream));
	case REDUCE_SCATTER:
		return (n->ncclReduceScatter(src, dst, o->count, o->type, op, comm, stream));
	case BROADCAST:
		return (n->ncclBroadcast(src, dst, o->count, o->type, o->root, comm, stream));
	case ALL_GATHER:
		return (n->ncclAllGather(src, dst, o->count, o->type, comm, stream));
	case SEND:
		return (n->ncclSend(src, o->count, o->type, o->root, comm, stream));
	case RECV:
		return (n->ncclRecv(dst, o->count, o->type, o->root, comm, stream));
	default:
		return (send_pieces(n, comm, o, rank, ranks, stream));
	}
}

/* The reductions with a factor, before the group in which they are used. */
static ncclResult_t make_scales(const struct sing_nccl *n, ncclComm_t comm, const struct sing_nccl_op *ops, size_t k, int *made)
{
	enum { IMMEDIATE = 1 };
	ncclResult_t r = 0;

	for (size_t i = 0; i < k && !r; ++i) {
		if (!ops[i].scale)
			continue;
		if (!n->ncclRedOpCreatePreMulSum || !n->ncclRedOpDestroy)
			return (SING_NCCL_ABSENT);
		r = n->ncclRedOpCreatePreMulSum(&made[i], (void *)ops[i].scale, ops[i].type, IMMEDIATE, comm);
	}

	return (r);
}

ncclResult_t sing_nccl_group(const struct sing_nccl *n, ncclComm_t comm, const struct sing_nccl_op *ops, size_t k, int rank, int ranks, void *stream, int *made)
{
	ncclResult_t end, r;

	memset(made, 0, k * sizeof(*made));
	r = make_scales(n, comm, ops, k, made);
	if (!r)
		r = n->ncclGroupStart();
	if (r)
		return (r);
	for (size_t i = 0; i < k && (r == 0 || r == SING_NCCL_IN_PROGRESS); ++i)
		r = issue_op(n, comm, &ops[i], made[i] ? made[i] : ops[i].op, rank, ranks, stream);
	end = n->ncclGroupEnd();

	return (r && r != SING_NCCL_IN_PROGRESS ? r : end);
}

void sing_nccl_forget(const struct sing_nccl *n, ncclComm_t comm, const int *made, size_t k)
{
	for (size_t i = 0; i < k; ++i)
		if (made[i])
			n->ncclRedOpDestroy(made[i], comm);
}
