// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Groups, which MPI sessions use. A member contributes the endpoints of its processes, which PMIx 4 and 5 pass as
 * bytes to be joined, and attributes, which PMIx 6 and later pass one by one:
 *
 *	number of bytes, the bytes, the attributes as the library packs them
 */
#define _GNU_SOURCE
#include "pmix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENDPOINTS "pmix.grp.endpt"

enum { MAX_RESULTS = 4 };

struct group {
	abi_info_done done;
	void *data;
	struct abi_proc *procs;
	size_t n_procs;
	struct abi_array members;
	struct buffer endpoints;
	bool handed_over; /* PMIx 4 and 5 free the endpoints themselves */
	struct abi_info *infos; /* the answer; belongs to the library until it calls free_group */
	size_t n_infos;
};

static void free_group(void *data)
{
	struct group *g = data;

	free(g->procs);
	free(g->infos); /* the values in it are small, and are not freed */
	if (!g->handed_over)
		free_buffer(&g->endpoints);
	free(g);
}

static struct abi_info *add_result(struct group *g, const char *key, uint16_t type)
{
	struct abi_info *i = &g->infos[g->n_infos++];

	*i = (struct abi_info){ .value.type = type };
	snprintf(i->key, sizeof(i->key), "%s", key);

	return (i);
}

/* Add the attributes that a member has contributed. */
static void add_attributes(struct group *g, const char *bytes, size_t n)
{
	struct abi_buffer packed = {
		.base = (char *)bytes, .pack = (char *)bytes + n, .unpack = (char *)bytes, .allocated = n, .used = n,
	};

	for (;;) {
		struct abi_info *more = realloc(g->infos, (g->n_infos + 1) * sizeof(*more));
		int32_t one = 1;

		if (!more)
			return;
		g->infos = more;
		memset(&more[g->n_infos], 0, sizeof(*more));
		if (pmix.PMIx_Data_unpack(NULL, &packed, &more[g->n_infos], &one, ABI_INFO) != ABI_SUCCESS)
			return;
		++g->n_infos;
	}
}

/* Take in the contributions of all members. Returns -1 if the bytes have another form. */
static int take_contributions(struct group *g, const char *bytes, size_t n)
{
	while (n > 0) {
		size_t endpoints, attributes;

		if (n < 8)
			return (-1);
		endpoints = number_at(bytes);
		attributes = number_at(bytes + 4);
		if (endpoints > n - 8 || attributes > n - 8 - endpoints)
			return (-1);
		add_bytes(&g->endpoints, bytes + 8, endpoints);
		add_attributes(g, bytes + 8 + endpoints, attributes);
		bytes += 8 + endpoints + attributes;
		n -= 8 + endpoints + attributes;
	}

	return (g->endpoints.failed ? -1 : 0);
}

static void on_group(void *data, int status, uint32_t context, const char *bytes, size_t n)
{
	struct group *g = data;

	g->infos = calloc(MAX_RESULTS, sizeof(*g->infos));
	if (status != STATUS_DONE || !g->infos) {
		g->done(status == STATUS_DONE ? ABI_ERR_NOMEM : ABI_ERR_LOST_CONNECTION, NULL, 0, g->data, free_group, g);
		return;
	}
	add_result(g, "pmix.grp.ctxid", ABI_SIZE)->value.data.size = context;
	g->members = (struct abi_array){ .type = ABI_PROC, .size = g->n_procs, .array = g->procs };
	add_result(g, "pmix.grp.mbrs", ABI_DATA_ARRAY)->value.data.array = &g->members;
	if (take_contributions(g, bytes, n)) {
		g->done(ABI_ERROR, NULL, 0, g->data, free_group, g);
		return;
	}
	if (g->endpoints.n > 0) {
		struct abi_info *more = realloc(g->infos, (g->n_infos + 1) * sizeof(*more));

		if (more) {
			g->infos = more;
			g->handed_over = true;
			add_result(g, ENDPOINTS, ABI_BYTES)->value.data.bytes =
				(struct abi_bytes){ .bytes = g->endpoints.bytes, .size = g->endpoints.n };
		}
	}
	g->done(ABI_SUCCESS, g->infos, g->n_infos, g->data, free_group, g);
}

/* Make the contribution of this task's server to a group. */
static void make_contribution(struct buffer *b, const struct abi_info *infos, size_t n)
{
	const struct abi_bytes *endpoints = NULL;
	struct abi_buffer packed = { 0 };

	for (size_t i = 0; i < n; ++i) {
		if (strcmp(infos[i].key, ENDPOINTS) == 0 && infos[i].value.type == ABI_BYTES)
			endpoints = &infos[i].value.data.bytes;
		else if (strncmp(infos[i].key, "pmix.grp.info", 13) == 0)
			b->failed |= pmix.PMIx_Data_pack(NULL, &packed, (void *)&infos[i], 1, ABI_INFO) != ABI_SUCCESS;
	}
	add_number(b, endpoints ? (uint32_t)endpoints->size : 0);
	add_number(b, (uint32_t)packed.used);
	if (endpoints)
		add_bytes(b, endpoints->bytes, endpoints->size);
	add_bytes(b, packed.base, packed.used);
	free(packed.base);
}

abi_status take_part_in_group(int operation, char *name, const struct abi_proc *procs, size_t n_procs,
	const struct abi_info *infos, size_t n_infos, abi_info_done done, void *data)
{
	struct group *g;
	struct buffer b = { 0 };
	abi_status rv = ABI_ERR_NOMEM;

	if (operation != ABI_GROUP_CONSTRUCT && operation != ABI_GROUP_DESTRUCT)
		return (ABI_ERR_NOT_SUPPORTED);
	g = calloc(1, sizeof(*g));
	if (!g)
		goto out;
	*g = (struct group){ .done = done, .data = data, .n_procs = n_procs };
	g->procs = calloc(n_procs + 1, sizeof(*g->procs));
	if (operation == ABI_GROUP_CONSTRUCT)
		make_contribution(&b, infos, n_infos);
	if (!g->procs || b.failed)
		goto out;
	memcpy(g->procs, procs, n_procs * sizeof(*procs));
	rv = take_part(operation == ABI_GROUP_CONSTRUCT ? COLLECT_GROUP : COLLECT_LEAVE_GROUP, name, procs, n_procs, b.bytes, b.n,
		on_group, g);

out:
	free_buffer(&b);
	if (rv != ABI_SUCCESS && g)
		free_group(g);

	return (rv);
}
