// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "find.h"

#include <string.h>

static void *function_at(unsigned i)
{
	return (char *)sing_offsets + sing_offsets[i];
}

void *sing_find_symbol(const char *symbol)
{
	unsigned low = 0, high = sing_symbol_count;

	while (low < high) {
		const unsigned middle = low + (high - low) / 2;
		const int order = strcmp(symbol, sing_names + sing_symbols[middle]);

		if (order == 0)
			return function_at(middle);
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

/* The index of the first key of that name, or sing_key_count. */
static unsigned first_key(const char *name)
{
	unsigned low = 0, high = sing_key_count;

	while (low < high) {
		const unsigned middle = low + (high - low) / 2;

		if (strcmp(sing_names + sing_keys[middle].name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void *sing_find(const char *name, int version, bool per_thread, bool *known)
{
	void *best = NULL;
	bool any = false;

	/*
	 * Of several suitable keys the last is taken: keys are sorted by by_thread first, then by
	 * version.
	 */
	for (unsigned i = first_key(name); i < sing_key_count; ++i) {
		const struct sing_key *k = &sing_keys[i];

		if (strcmp(sing_names + k->name, name) != 0)
			break;
		any = true;
		if (k->version <= version && (per_thread || !k->by_thread))
			best = function_at(k->function);
	}
	if (known != NULL)
		*known = any;
	return best;
}
