// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Which tasks share a node. Slurm's variables name only the tasks of a task's own node, so the tasks tell each other:
 * each sends its rank, the length of its host's name, and the name.
 */
#define _GNU_SOURCE
#include "pmix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_HOST = 256 };

struct exchange {
	struct layout *l;
	bool done;
	bool good;
};

/* Take in the messages of all tasks. Returns -1 unless each task has sent a single message. */
static int take_hosts(struct layout *l, const char *bytes, size_t n)
{
	int known = 0;

	while (n >= 8) {
		const uint32_t rank = number_at(bytes);
		const size_t length = number_at(bytes + 4);

		if (rank >= (uint32_t)l->size || l->hosts[rank] || length == 0 || length >= MAX_HOST || length > n - 8)
			return (-1);
		l->hosts[rank] = strndup(bytes + 8, length);
		if (!l->hosts[rank] || strpbrk(l->hosts[rank], ",;[]"))
			return (-1);
		++known;
		bytes += 8 + length;
		n -= 8 + length;
	}

	return (n == 0 && known == l->size ? 0 : -1);
}

static void on_hosts(void *data, int status, uint32_t context, const char *bytes, size_t n)
{
	struct exchange *e = data;

	(void)context;
	e->done = true;
	e->good = status == STATUS_DONE && take_hosts(e->l, bytes, n) == 0;
}

/* Number the nodes in the order of their first ranks. */
static void number_nodes(struct layout *l, int me)
{
	for (int rank = 0; rank < l->size; ++rank) {
		int other = 0;

		while (strcmp(l->hosts[other], l->hosts[rank]))
			++other;
		l->node_of[rank] = other == rank ? l->n_nodes++ : l->node_of[other];
	}
	for (int rank = 0; rank < l->size; ++rank) {
		if (l->node_of[rank] != l->node_of[me])
			continue;
		if (rank < me)
			++l->local_rank;
		++l->local_size;
	}
}

int exchange_layout(struct layout *l, const struct task *t)
{
	struct exchange e = { .l = l };
	struct buffer mine = { 0 };
	char host[MAX_HOST] = "";

	*l = (struct layout){
		.size = t->size,
		.node_of = calloc((size_t)t->size, sizeof(*l->node_of)),
		.hosts = calloc((size_t)t->size, sizeof(*l->hosts)),
	};
	gethostname(host, sizeof(host) - 1);
	add_number(&mine, (uint32_t)t->rank);
	add_number(&mine, (uint32_t)strlen(host));
	add_text(&mine, host);
	if (l->node_of && l->hosts && !mine.failed) {
		if (t->size == 1)
			on_hosts(&e, STATUS_DONE, 0, mine.bytes, mine.n);
		else if (collect(COLLECT_LAYOUT, "", NULL, 0, mine.bytes, mine.n, on_hosts, &e) || wait_until(&e.done))
			e.good = false;
	}
	free_buffer(&mine);
	if (!e.good) {
		fprintf(stderr, "singularity: srun --mpi=pmix: the other tasks of the step cannot be reached\n");
		return (-1);
	}
	number_nodes(l, t->rank);

	return (0);
}

/* End a list. Returns its text, or NULL without memory. */
static char *end_list(struct buffer *b)
{
	add_bytes(b, "", 1);
	if (!b->failed)
		return (b->bytes);
	free_buffer(b);

	return (NULL);
}

char *list_hosts(const struct layout *l)
{
	struct buffer b = { 0 };
	int nodes = 0;

	for (int rank = 0; rank < l->size; ++rank) {
		if (l->node_of[rank] < nodes)
			continue;
		add_text(&b, nodes++ ? "," : "");
		add_text(&b, l->hosts[rank]);
	}

	return (end_list(&b));
}

static void add_ranks(struct buffer *b, const struct layout *l, int node)
{
	const char *comma = "";
	char word[16];

	for (int rank = 0; rank < l->size; ++rank) {
		if (l->node_of[rank] != node)
			continue;
		snprintf(word, sizeof(word), "%s%d", comma, rank);
		add_text(b, word);
		comma = ",";
	}
}

char *list_ranks(const struct layout *l)
{
	struct buffer b = { 0 };

	for (int node = 0; node < l->n_nodes; ++node) {
		add_text(&b, node ? ";" : "");
		add_ranks(&b, l, node);
	}

	return (end_list(&b));
}

char *list_peers(const struct layout *l, int rank)
{
	struct buffer b = { 0 };

	add_ranks(&b, l, l->node_of[rank]);

	return (end_list(&b));
}
