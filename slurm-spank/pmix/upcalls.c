// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The requests of the library to this process: each request goes to the hub, and its answer to the
 * library.
 */
#define _GNU_SOURCE
#include "pmix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct task *task;

/* The function that the library wants to be called with the answer to a request. */
struct waiting {
	union {
		abi_modex_done modex;
		abi_op_done op;
	} done;
	void *data;
};

static struct waiting *new_waiting(void *data)
{
	struct waiting *w = calloc(1, sizeof(*w));

	if (w)
		w->data = data;

	return (w);
}

static abi_status status_of(int status)
{
	switch (status) {
	case STATUS_DONE:
		return (ABI_SUCCESS);
	case STATUS_FULL:
		return (ABI_ERR_NOMEM);
	default:
		return (ABI_ERR_LOST_CONNECTION);
	}
}

static char *copy_bytes(const char *bytes, size_t n)
{
	char *copy = malloc(n + 1);

	if (copy && n > 0)
		memcpy(copy, bytes, n);

	return (copy);
}

static void answer_modex(void *data, int status, uint32_t context, const char *bytes, size_t n)
{
	struct waiting *w = data;
	char *copy = status == STATUS_DONE ? copy_bytes(bytes, n) : NULL;

	(void)context;
	if (status == STATUS_DONE && !copy)
		status = STATUS_FULL;
	w->done.modex(status_of(status), copy, copy ? n : 0, w->data, copy ? free : NULL, copy);
	free(w);
}

static void answer_op(void *data, int status, uint32_t context, const char *bytes, size_t n)
{
	struct waiting *w = data;

	(void)context;
	(void)bytes;
	(void)n;
	w->done.op(status_of(status), w->data);
	free(w);
}

/* --- collectives --- */

struct members {
	uint32_t *ranks; /* in order; NULL for all ranks of the step */
	size_t n;
};

static int compare_ranks(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return ((x > y) - (x < y));
}

/* The ranks of a collective, each once. Returns an error for processes of other steps. */
static abi_status find_members(struct members *m, const struct abi_proc *procs, size_t n)
{
	*m = (struct members){ .ranks = calloc(n + 1, sizeof(*m->ranks)) };
	if (!m->ranks)
		return (ABI_ERR_NOMEM);
	for (size_t i = 0; i < n; ++i) {
		const bool all = procs[i].rank == ABI_RANK_WILDCARD;

		if (strncmp(procs[i].nspace, task->step, sizeof(procs[i].nspace)) ||
		    (!all && procs[i].rank >= (uint32_t)task->size)) {
			free(m->ranks);
			return (ABI_ERR_NOT_SUPPORTED);
		}
		m->n = all ? (size_t)task->size : m->n;
		if (all)
			break;
		m->ranks[m->n++] = procs[i].rank;
	}
	if (m->n < (size_t)task->size) {
		size_t distinct = 0;

		qsort(m->ranks, m->n, sizeof(*m->ranks), compare_ranks);
		for (size_t i = 0; i < m->n; ++i) {
			if (distinct == 0 || m->ranks[distinct - 1] != m->ranks[i])
				m->ranks[distinct++] = m->ranks[i];
		}
		m->n = distinct;
	}
	if (m->n < (size_t)task->size)
		return (ABI_SUCCESS);
	free(m->ranks);
	*m = (struct members){ 0 };

	return (ABI_SUCCESS);
}

abi_status take_part(int kind, const char *name, const struct abi_proc *procs, size_t n_procs, const char *bytes, size_t n,
	on_answer answer, void *data)
{
	static uint32_t contexts;
	struct members m;
	abi_status rv = find_members(&m, procs, n_procs);

	if (rv != ABI_SUCCESS)
		return (rv);
	if (task->size == 1) /* without a hub: the task's own contribution is the answer */
		answer(data, STATUS_DONE, ++contexts, bytes, n);
	else
		rv = collect(kind, name, m.ranks, m.n, bytes, n, answer, data) ? ABI_ERR_LOST_CONNECTION : ABI_SUCCESS;
	free(m.ranks);

	return (rv);
}

static abi_status on_fence(const struct abi_proc *procs, size_t n_procs, const struct abi_info *info, size_t n_info, char *data,
	size_t n, abi_modex_done done, void *cb)
{
	struct waiting *w = new_waiting(cb);
	abi_status rv = ABI_ERR_NOMEM;

	(void)info;
	(void)n_info;
	if (w) {
		w->done.modex = done;
		rv = take_part(COLLECT_FENCE, "", procs, n_procs, data, n, answer_modex, w);
	}
	if (rv != ABI_SUCCESS)
		free(w);
	free(data); /* the library leaves it to this function to free data */

	return (rv);
}

static abi_status take_part_op(int kind, const struct abi_proc *procs, size_t n_procs, abi_op_done done, void *cb)
{
	struct waiting *w = new_waiting(cb);
	abi_status rv;

	if (!w)
		return (ABI_ERR_NOMEM);
	w->done.op = done;
	rv = take_part(kind, "", procs, n_procs, NULL, 0, answer_op, w);
	if (rv != ABI_SUCCESS)
		free(w);

	return (rv);
}

static abi_status on_connect(const struct abi_proc *procs, size_t n_procs, const struct abi_info *info, size_t n_info,
	abi_op_done done, void *cb)
{
	(void)info;
	(void)n_info;

	return (take_part_op(COLLECT_CONNECT, procs, n_procs, done, cb));
}

static abi_status on_disconnect(const struct abi_proc *procs, size_t n_procs, const struct abi_info *info, size_t n_info,
	abi_op_done done, void *cb)
{
	(void)info;
	(void)n_info;

	return (take_part_op(COLLECT_DISCONNECT, procs, n_procs, done, cb));
}

/* --- questions --- */

static abi_status on_direct_modex(
	const struct abi_proc *proc, const struct abi_info *info, size_t n_info, abi_modex_done done, void *cb)
{
	struct waiting *w;

	(void)info;
	(void)n_info;
	if (strncmp(proc->nspace, task->step, sizeof(proc->nspace)) || proc->rank >= (uint32_t)task->size)
		return (ABI_ERR_NOT_FOUND);
	w = new_waiting(cb);
	if (!w)
		return (ABI_ERR_NOMEM);
	w->done.modex = done;
	if (ask_rank(proc->rank, answer_modex, w) == 0)
		return (ABI_SUCCESS);
	free(w);

	return (ABI_ERR_LOST_CONNECTION);
}

struct question {
	uint32_t asker, request;
};

static void on_keys(abi_status status, char *keys, size_t n, void *data)
{
	struct question *q = data;

	tell_rank(q->asker, q->request, status == ABI_SUCCESS ? STATUS_DONE : STATUS_LOST, keys, status == ABI_SUCCESS ? n : 0);
	free(q);
}

void answer_question(uint32_t asker, uint32_t request)
{
	struct question *q = malloc(sizeof(*q));
	struct abi_proc me = { .rank = (uint32_t)task->rank };

	snprintf(me.nspace, sizeof(me.nspace), "%s", task->step);
	if (q)
		*q = (struct question){ .asker = asker, .request = request };
	if (q && pmix.PMIx_server_dmodex_request(&me, on_keys, q) == ABI_SUCCESS)
		return;
	free(q);
	tell_rank(asker, request, STATUS_LOST, NULL, 0);
}

/* --- names and groups --- */

static abi_status on_publish(
	const struct abi_proc *proc, const struct abi_info *info, size_t n_info, abi_op_done done, void *cb)
{
	(void)proc;

	return (publish_names(task, info, n_info, done, cb));
}

static abi_status on_lookup(const struct abi_proc *proc, char **keys, const struct abi_info *info, size_t n_info,
	abi_lookup_done done, void *cb)
{
	(void)proc;
	(void)info;
	(void)n_info;

	return (look_up_names(task, keys, done, cb));
}

static abi_status on_unpublish(
	const struct abi_proc *proc, char **keys, const struct abi_info *info, size_t n_info, abi_op_done done, void *cb)
{
	(void)proc;
	(void)info;
	(void)n_info;

	return (unpublish_names(task, keys, done, cb));
}

/* --- the end --- */

static abi_status on_abort(const struct abi_proc *proc, void *object, int status, const char *message, struct abi_proc *procs,
	size_t n_procs, abi_op_done done, void *cb)
{
	(void)proc;
	(void)object;
	(void)status;
	(void)message;
	(void)procs;
	(void)n_procs;
	(void)done;
	(void)cb;
	abort_step(); /* also where only some processes are named: srun ends a step as a whole */

	return (ABI_OPERATION_SUCCEEDED);
}

const struct abi_module *upcalls_for(const struct task *t)
{
	static const struct abi_module module = {
		.abort = on_abort,
		.fence = on_fence,
		.direct_modex = on_direct_modex,
		.publish = on_publish,
		.lookup = on_lookup,
		.unpublish = on_unpublish,
		.connect = on_connect,
		.disconnect = on_disconnect,
		.group = take_part_in_group,
	};

	task = t;

	return (&module);
}
