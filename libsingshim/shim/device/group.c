// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * A thread's group. The operations that a thread issues between ncclGroupStart and the last ncclGroupEnd are
 * gathered here and go to the server as a single message, which passes the barrier's gate as a whole and
 * counts, in the same step, for each communicator and each direction of a pair in the group. If a call in
 * the group failed, no operation of the group is issued. While streams capture, there is a message for each
 * capture.
 */
#include "nccl.h"

#include "../../wire/attach.h"
#include "../../wire/wire.h"
#include "capture.h"
#include "transport.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(sing_nccl_count) == sizeof(struct sing_count), "what is counted crosses as the ring has it");
_Static_assert(offsetof(sing_nccl_count, n) == offsetof(struct sing_count, n), "what is counted crosses as the ring has it");

/* The key for which an operation is counted. */
enum { COLLECTIVES, SENDS, RECEIVES };

static uint64_t key_of(const sing_nccl_op *op)
{
	const uint64_t kind = op->kind == singNcclSend ? SENDS : op->kind == singNcclRecv ? RECEIVES : COLLECTIVES;
	const uint64_t peer = kind == COLLECTIVES ? 0 : (uint64_t)op->root;
	const uint64_t comm = (uint64_t)(uintptr_t)op->comm & ((1ull << SING_COUNT_PEER) - 1);

	return kind << SING_COUNT_KIND | peer << SING_COUNT_PEER | comm;
}

/* A communicator that is being made: the call that makes it has set *handle to c's handle. */
struct made {
	struct sing_comm *c;
	ncclComm_t *handle;
};

/* A reduction that was destroyed. */
struct gone {
	ncclRedOp_t op;
	ncclComm_t comm;
};

/* The number of sends and receives of a member to and from itself. */
struct own {
	ncclComm_t comm;
	size_t sends, receives;
};

static _Thread_local struct {
	int depth;
	ncclResult_t error; /* the first error of a call in the group */
	bool blocking, nonblocking; /* the group has communicators of that kind */
	sing_nccl_op *ops;
	size_t op_count, op_room;
	struct made *made;
	size_t made_count, made_room;
	struct gone *gone;
	size_t gone_count, gone_room;
	struct own *own;
	size_t own_count, own_room;
} group __attribute__((tls_model("initial-exec")));

bool sing_group_open(void)
{
	return group.depth > 0;
}

ncclResult_t sing_group_spoil(ncclResult_t result)
{
	if (group.depth > 0 && group.error == ncclSuccess && result != ncclInProgress)
		group.error = result;
	return result;
}

/* Room for another element. */
static bool grow_array(void **array, size_t count, size_t *room, size_t size)
{
	const size_t more = *room > 0 ? 2 * *room : 16;
	void *wider;

	if (count < *room)
		return true;
	wider = realloc(*array, more * size);
	if (wider == NULL)
		return false;
	*array = wider;
	*room = more;
	return true;
}

static void note_kind(const struct sing_comm *c)
{
	*(c->blocking ? &group.blocking : &group.nonblocking) = true;
}

/* Wait for a communicator, and drop a communicator that cannot be made. */
static ncclResult_t await_comm(const struct made *m)
{
	const ncclResult_t r = sing_comm_ask(m->c, true);

	if (r != ncclSuccess) {
		sing_send_ncclCommAbort(0, m->c->handle);
		atomic_store(&m->c->state, SING_COMM_ENDED);
		*m->handle = NULL;
	}
	return r;
}

ncclResult_t sing_group_made(struct sing_comm *c, ncclComm_t *handle)
{
	const struct made m = { c, handle };

	if (group.depth == 0)
		return c->blocking ? await_comm(&m) : ncclInProgress;
	if (!grow_array((void **)&group.made, group.made_count, &group.made_room, sizeof(*group.made)))
		return sing_group_spoil(sing_nccl_fail(ncclSystemError, "no memory"));
	group.made[group.made_count++] = m;
	note_kind(c);
	return c->blocking ? ncclSuccess : ncclInProgress;
}

/* Count an operation; false if there are too many keys. */
static bool count_op(sing_nccl_count *counts, unsigned int *k, const sing_nccl_op *op)
{
	const uint64_t key = key_of(op);

	for (unsigned int i = 0; i < *k; ++i) {
		if (counts[i].key == key) {
			++counts[i].n;
			return true;
		}
	}
	if (*k == SING_COUNTS_MAX)
		return false;
	counts[(*k)++] = (sing_nccl_count){ .key = key, .n = 1 };
	return true;
}

static ncclResult_t send_ops(const sing_nccl_op *ops, size_t n)
{
	sing_nccl_count few[16], *counts = few;
	unsigned int k = 0;
	ncclResult_t r = ncclSuccess;

	if (n > sizeof(few) / sizeof(*few)) {
		counts = malloc(SING_COUNTS_MAX * sizeof(*counts));
		if (counts == NULL)
			return sing_nccl_fail(ncclSystemError, "no memory");
	}
	for (size_t i = 0; i < n && r == ncclSuccess; ++i)
		if (!count_op(counts, &k, &ops[i]))
			r = sing_nccl_fail(ncclInternalError, "a group over more than %d communicators and peers", SING_COUNTS_MAX);
	if (r == ncclSuccess)
		r = sing_nccl_result(sing_send_nccl_group(0, counts, k, ops, (unsigned int)n, ops[0].stream));
	if (counts != few)
		free(counts);
	return r;
}

/*
 * Whether operations of several captures are in the group, and those of each communicator in a single capture, or in none.
 * The operations of each capture are then a node of that capture's graph, as with NCCL. A group that mixes a
 * communicator's streams is a single message, which is refused and invalidates the captures.
 */
static bool is_divided(const sing_nccl_op *ops, const unsigned long long *ids, size_t n)
{
	bool several = false;

	for (size_t i = 1; i < n; ++i) {
		several = several || ids[i] != ids[0];
		for (size_t k = 0; k < i; ++k)
			if (ops[k].comm == ops[i].comm && ids[k] != ids[i])
				return false;
	}
	return several;
}

/* Send the operations of each capture, in the order of their first operations. some has room for n operations. */
static ncclResult_t send_by_capture(const sing_nccl_op *ops, unsigned long long *ids, sing_nccl_op *some, size_t n)
{
	enum { SENT = -1 };
	ncclResult_t r = ncclSuccess;

	for (size_t i = 0; i < n && r == ncclSuccess; ++i) {
		const unsigned long long id = ids[i];
		size_t k = 0;

		if (id == (unsigned long long)SENT)
			continue;
		for (size_t j = i; j < n; ++j) {
			if (ids[j] != id)
				continue;
			some[k++] = ops[j];
			ids[j] = (unsigned long long)SENT;
		}
		r = send_ops(some, k);
	}
	return r;
}

static ncclResult_t issue_ops(const sing_nccl_op *ops, size_t n)
{
	unsigned long long *ids;
	sing_nccl_op *some;
	ncclResult_t r;

	if (n == 1 || !sing_captures())
		return send_ops(ops, n);
	ids = malloc(n * sizeof(*ids));
	some = malloc(n * sizeof(*some));
	if (ids == NULL || some == NULL) {
		r = sing_nccl_fail(ncclSystemError, "no memory");
		goto out;
	}
	for (size_t i = 0; i < n; ++i)
		ids[i] = sing_capture_id(ops[i].stream);
	r = is_divided(ops, ids, n) ? send_by_capture(ops, ids, some, n) : send_ops(ops, n);
out:
	free(ids);
	free(some);
	return r;
}

/* Count a message to or from oneself. */
static bool count_own(const sing_nccl_op *op)
{
	size_t i = 0;

	while (i < group.own_count && group.own[i].comm != op->comm)
		++i;
	if (i == group.own_count) {
		if (!grow_array((void **)&group.own, group.own_count, &group.own_room, sizeof(*group.own)))
			return false;
		group.own[group.own_count++] = (struct own){ .comm = op->comm };
	}
	++*(op->kind == singNcclSend ? &group.own[i].sends : &group.own[i].receives);
	return true;
}

ncclResult_t sing_group_op(const struct sing_comm *c, const sing_nccl_op *op)
{
	const bool own = op->kind >= singNcclSend && op->root == c->rank;

	if (group.depth == 0)
		return issue_ops(op, 1);
	if (!grow_array((void **)&group.ops, group.op_count, &group.op_room, sizeof(*group.ops)) || (own && !count_own(op)))
		return sing_group_spoil(sing_nccl_fail(ncclSystemError, "no memory"));
	group.ops[group.op_count++] = *op;
	note_kind(c);
	return ncclSuccess;
}

ncclResult_t sing_group_redop_gone(ncclRedOp_t op, ncclComm_t comm)
{
	if (group.depth == 0)
		return sing_nccl_result(sing_send_ncclRedOpDestroy(0, op, comm));
	if (!grow_array((void **)&group.gone, group.gone_count, &group.gone_room, sizeof(*group.gone)))
		return sing_group_spoil(sing_nccl_fail(ncclSystemError, "no memory"));
	group.gone[group.gone_count++] = (struct gone){ op, comm };
	return ncclSuccess;
}

/*
 * A member must receive its sends to itself in the same group: else the send would wait for a call that comes
 * after the group. Returns whether the sends to and the receives from oneself come in pairs, as NCCL wants
 * them.
 */
static bool is_paired(void)
{
	for (size_t i = 0; i < group.own_count; ++i)
		if (group.own[i].sends != group.own[i].receives)
			return false;
	return true;
}

/* The end of the outermost group. */
static ncclResult_t finish_group(void)
{
	ncclResult_t r = group.error;

	if (r == ncclSuccess && group.blocking && group.nonblocking)
		r = sing_nccl_fail(ncclInvalidArgument, "communicators that block and others that do not, in one group");
	if (r == ncclSuccess && !is_paired())
		r = sing_nccl_fail(ncclInvalidUsage, "a send to oneself without its receive in the group, or the reverse");
	for (size_t i = 0; i < group.made_count; ++i) {
		const struct made *m = &group.made[i];

		if (r != ncclSuccess && r != ncclInProgress) {
			/*
			 * No call of this program waits for the communicator; the abort keeps the other
			 * members from waiting.
			 */
			sing_send_ncclCommAbort(0, m->c->handle);
			atomic_store(&m->c->state, SING_COMM_ENDED);
			*m->handle = NULL;
		} else {
			r = m->c->blocking ? await_comm(m) : ncclInProgress;
		}
	}
	if ((r == ncclSuccess || r == ncclInProgress) && group.op_count > 0) {
		const ncclResult_t issued = issue_ops(group.ops, group.op_count);

		if (issued != ncclSuccess)
			r = issued;
	}
	for (size_t i = 0; i < group.gone_count; ++i)
		sing_send_ncclRedOpDestroy(0, group.gone[i].op, group.gone[i].comm);
	return r;
}

ncclResult_t sing_ncclGroupStart(void)
{
	++group.depth;
	return ncclSuccess;
}
SING_PUBLIC(ncclGroupStart);

ncclResult_t sing_ncclGroupEnd(void)
{
	ncclResult_t r;

	if (group.depth == 0)
		return sing_nccl_fail(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
	if (group.depth > 1) {
		--group.depth;
		return ncclSuccess;
	}
	r = finish_group();
	group.depth = 0;
	free(group.ops);
	free(group.made);
	free(group.gone);
	free(group.own);
	memset(&group, 0, sizeof(group));
	return r;
}
SING_PUBLIC(ncclGroupEnd);
