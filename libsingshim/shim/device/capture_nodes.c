// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Sets of nodes: see capture.h. */
#include "capture.h"

#include <stdlib.h>
#include <string.h>

bool sing_nodes_has(const struct sing_nodes *s, CUgraphNode node)
{
	for (size_t i = 0; i < s->n; ++i)
		if (s->at[i] == node)
			return true;
	return false;
}

bool sing_nodes_reserve(struct sing_nodes *s, size_t more)
{
	const size_t room = s->n + more < 8 ? 8 : 2 * (s->n + more);
	void *at, *edges;

	if (s->n + more <= s->room)
		return true;
	at = realloc(s->at, room * sizeof(*s->at));
	if (at != NULL)
		s->at = at;
	edges = realloc(s->edges, room * sizeof(*s->edges));
	if (edges != NULL)
		s->edges = edges;
	if (at == NULL || edges == NULL)
		return false;
	s->room = room;
	memset(s->edges, 0, room * sizeof(*s->edges));
	return true;
}

bool sing_nodes_add(struct sing_nodes *s, const CUgraphNode *nodes, size_t n)
{
	if (n > SIZE_MAX / 32 || !sing_nodes_reserve(s, n))
		return false;
	for (size_t i = 0; i < n; ++i)
		if (!sing_nodes_has(s, nodes[i]))
			s->at[s->n++] = nodes[i];
	return true;
}

void sing_nodes_drop(struct sing_nodes *s, CUgraphNode node)
{
	for (size_t i = 0; i < s->n; ++i)
		if (s->at[i] == node)
			s->at[i--] = s->at[--s->n];
}

void sing_nodes_clear(struct sing_nodes *s)
{
	free(s->at);
	free(s->edges);
	memset(s, 0, sizeof(*s));
}
